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
    operation: "chat",
    path: "/v1/messages",
    // A request needs an answer limit, and the count does not.
    counting: { path: "/v1/messages/count_tokens", defaults: { max_tokens: 1 }, answer: {} },
    decodeRequest,
    encodeRequest,
    decodePrompt,
    eventEncoder,
    encodeReply,
    streamFailure,
  },
  backend: { encodePrompt, readReply, decodeReply, stream: backendStream, gatherer },
}
