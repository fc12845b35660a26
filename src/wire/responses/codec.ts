/** The responses format both ways between the wire and the neutral language, assembled. */
import type { WireCodec } from "../codec.ts"
import { eventDecoder } from "./events-in.ts"
import { eventEncoder } from "./event-encode.ts"
import { decodePrompt } from "./prompt-decode.ts"
import { encodePrompt, LEAST_ANSWER_TOKENS } from "./prompt-encode.ts"
import { decodeReply } from "./reply-decode.ts"
import { encodeReply } from "./reply-encode.ts"

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
