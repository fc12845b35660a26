/** Chat completions to the neutral language and back, assembled. */
import type { WireCodec } from "../codec.ts"
import { eventDecoder } from "./events-in.ts"
import { eventEncoder } from "./event-encode.ts"
import { decodePrompt } from "./prompt-decode.ts"
import { encodePrompt } from "./prompt-encode.ts"
import { decodeReply } from "./reply-decode.ts"
import { encodeReply } from "./reply-encode.ts"

export const chatCodec: WireCodec = {
  endpoint: "chat",
  decodePrompt,
  encodePrompt,
  eventDecoder,
  eventEncoder,
  decodeReply,
  encodeReply,
}
