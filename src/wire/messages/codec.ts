/** The messages format and the neutral language, both ways, assembled. */
import type { WireCodec } from "../codec.ts"
import { MessagesEventDecoder } from "./events-in.ts"
import { MessagesEventEncoder } from "./event-encode.ts"
import { decodePrompt } from "./prompt-decode.ts"
import { encodePrompt } from "./prompt-encode.ts"
import { decodeReply } from "./reply-decode.ts"
import { encodeReply } from "./reply-encode.ts"

export const messagesCodec: WireCodec = {
  endpoint: "messages",
  decodePrompt,
  encodePrompt,
  eventDecoder: (prompt) => new MessagesEventDecoder(prompt),
  eventEncoder: (view) => new MessagesEventEncoder(view),
  decodeReply,
  encodeReply,
}
