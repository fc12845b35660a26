/** The responses format, assembled. */
import type { WireFormat } from "../format.ts"
import { gatherer } from "./gather.ts"
import { readReply } from "./reply.ts"
import { decodeRequest, encodeRequest } from "./request.ts"
import { failedReply, streamFailure } from "./stream-failure.ts"
import { backendEvents } from "./events-in.ts"

export const responsesFormat: WireFormat = {
  endpoint: "responses",
  path: "/v1/responses",
  decodeRequest,
  encodeRequest,
  readReply,
  backendEvents,
  gatherer,
  streamFailure,
  failedReply,
}
