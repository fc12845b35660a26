/**
 * The responses format, assembled.
 */
import type { WireCodec } from "../codec.ts"
import type { WireFormat } from "../format.ts"
import { backendEvents, eventDecoder } from "./events-in.ts"
import { eventEncoder, failedReply, streamFailure } from "./events-out.ts"
import { gatherer } from "./gather.ts"
import { decodePrompt } from "./prompt-in.ts"
import { encodePrompt, LEAST_ANSWER_TOKENS } from "./prompt-out.ts"
import { decodeReply, encodeReply, readReply } from "./reply.ts"
import { decodeRequest, encodeRequest } from "./request.ts"

export const responsesFormat: WireFormat = {
  endpoint: "responses",
  path: "/v1/responses",
  decodeRequest,
  encodeRequest,
  readReply,
  backendEvents,
  gatherer,
  streamFailure,
  failedReply,
}

// The responses format both ways between the wire and the neutral language, assembled.

export const responsesCodec: WireCodec = {
  endpoint: "responses",
  leastAnswerTokens: LEAST_ANSWER_TOKENS,
  decodePrompt,
  encodePrompt,
  eventDecoder,
  eventEncoder,
  decodeReply,
  encodeReply,
}
