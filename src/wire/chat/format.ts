/** Chat completions, assembled. */
import type { ClientFormat } from "../format.ts"
import { backendStream } from "./events-in.ts"
import { streamFailure } from "../shared/chunks.ts"
import { eventEncoder } from "./events-out.ts"
import { decodeReply, encodeReply, gatherer, readReply } from "./reply.ts"
import { decodePrompt } from "./prompt-in.ts"
import { encodePrompt } from "./prompt-out.ts"
import { decodeRequest, encodeRequest } from "./request.ts"

export const chatFormat: ClientFormat = {
  client: {
    endpoint: "chat",
    operation: "chat",
    path: "/v1/chat/completions",
    decodeRequest,
    encodeRequest,
    decodePrompt,
    eventEncoder,
    encodeReply,
    streamFailure,
  },
  backend: { encodePrompt, readReply, decodeReply, stream: backendStream, gatherer },
}
