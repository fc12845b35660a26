/** Chat completions, assembled. */
import type { WireFormat } from "../format.ts"
import { gatherer } from "./gather.ts"
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
  gatherer,
  streamFailure,
  failedReply: undefined,
}
