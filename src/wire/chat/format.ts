/**
 * Chat completions, assembled.
 */
import type { WireCodec } from "../codec.ts"
import type { WireFormat } from "../format.ts"
import { backendEvents, eventDecoder } from "./events-in.ts"
import { eventEncoder, streamFailure } from "./events-out.ts"
import { gatherer } from "./gather.ts"
import { decodePrompt } from "./prompt-in.ts"
import { encodePrompt } from "./prompt-out.ts"
import { decodeReply, encodeReply, readReply } from "./reply.ts"
import { decodeRequest, encodeRequest } from "./request.ts"

export const chatFormat: WireFormat = {
  endpoint: "chat",
  path: "/v1/chat/completions",
  decodeRequest,
  encodeRequest,
  readReply,
  backendEvents,
  gatherer,
  streamFailure,
  failedReply: undefined,
}

// Chat completions to the neutral language and back, assembled.

export const chatCodec: WireCodec = {
  endpoint: "chat",
  decodePrompt,
  encodePrompt,
  eventDecoder,
  eventEncoder,
  decodeReply,
  encodeReply,
}
