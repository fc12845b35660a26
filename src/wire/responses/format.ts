/** The responses format, assembled. */
import type { ClientFormat } from "../format.ts"
import { backendStream } from "./events-in.ts"
import { eventEncoder, failedReply, streamFailure } from "./events-out.ts"
import { decodeReply, encodeReply, gatherer, readReply } from "./reply.ts"
import { decodePrompt, decodeRequest, encodeRequest } from "./request.ts"
import { encodePrompt, MIN_ANSWER_TOKENS } from "./prompt-out.ts"

export const responsesFormat: ClientFormat = {
  client: {
    endpoint: "responses",
    operation: "chat",
    path: "/v1/responses",
    counting: { path: "/v1/responses/input_tokens", defaults: {}, answer: { object: "response.input_tokens" } },
    decodeRequest,
    encodeRequest,
    decodePrompt,
    eventEncoder,
    encodeReply,
    streamFailure,
    failedReply,
  },
  backend: {
    minAnswerTokens: MIN_ANSWER_TOKENS,
    encodePrompt,
    readReply,
    decodeReply,
    stream: backendStream,
    gatherer,
  },
}
