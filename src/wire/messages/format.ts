/** The messages format, assembled. */
import type { ClientFormat } from "../format.ts"
import { backendStream } from "./events-in.ts"
import { eventEncoder, streamFailure } from "./events-out.ts"
import { decodeReply, encodeReply, gatherer, readReply } from "./reply.ts"
import { decodePrompt } from "./prompt-in.ts"
import { encodePrompt } from "./prompt-out.ts"
import { decodeRequest, encodeRequest } from "./request.ts"

export const messagesFormat: ClientFormat = {
  client: {
    endpoint: "messages",
    path: "/v1/messages",
    countPath: "/v1/messages/count_tokens",
    decodeRequest,
    encodeRequest,
    decodePrompt,
    eventEncoder,
    encodeReply,
    streamFailure,
  },
  backend: { encodePrompt, readReply, decodeReply, stream: backendStream, gatherer },
}
