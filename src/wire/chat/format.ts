/** Chat completions, assembled. */
import type { WireFormat } from "../format.ts"
import { readReply } from "./reply.ts"
import { decodeRequest, encodeRequest } from "./request.ts"
import { streamFailure } from "./stream-failure.ts"
import { streamReader } from "./stream.ts"

export const chatFormat: WireFormat = {
  endpoint: "chat",
  path: "/v1/chat/completions",
  decodeRequest,
  encodeRequest,
  readReply,
  streamReader,
  streamFailure,
  failedReply: undefined,
}
