/**
 * The messages format, assembled.
 */
import type { WireCodec } from "../codec.ts"
import type { WireFormat } from "../format.ts"
import { backendEvents, MessagesEventDecoder } from "./events-in.ts"
import { MessagesEventEncoder, streamFailure } from "./events-out.ts"
import { gatherer } from "./gather.ts"
import { decodePrompt } from "./prompt-in.ts"
import { encodePrompt } from "./prompt-out.ts"
import { decodeReply, encodeReply, readReply } from "./reply.ts"
import { decodeRequest, encodeRequest } from "./request.ts"

export const messagesFormat: WireFormat = {
  endpoint: "messages",
  path: "/v1/messages",
  decodeRequest,
  encodeRequest,
  readReply,
  backendEvents,
  gatherer,
  streamFailure,
  failedReply: undefined,
}

// The messages format and the neutral language, both ways, assembled.

export const messagesCodec: WireCodec = {
  endpoint: "messages",
  decodePrompt,
  encodePrompt,
  eventDecoder: (prompt) => new MessagesEventDecoder(prompt),
  eventEncoder: (view) => new MessagesEventEncoder(view),
  decodeReply,
  encodeReply,
}
