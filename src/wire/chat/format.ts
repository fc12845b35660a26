/** Chat completions, assembled. */
import type { WireFormat } from "../format.ts"
import { readReply } from "./reply.ts"
import { decodeRequest, encodeRequest } from "./request.ts"
import { streamFailure } from "./stream-failure.ts"
import { backendEvents } from "./events-in.ts"

export const chatFormat: WireFormat = {
  endpoint: "chat",
  path: "/v1/chat/completions",
  decodeRequest,
  encodeRequest,
  readReply,
  backendEvents,
  streamFailure,
  failedReply: undefined,
}
