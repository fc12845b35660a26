/** The messages format, assembled. */
import type { WireFormat } from "../format.ts"
import { gatherer } from "./gather.ts"
import { readReply } from "./reply.ts"
import { decodeRequest, encodeRequest } from "./request.ts"
import { streamFailure } from "./stream-failure.ts"
import { backendEvents } from "./events-in.ts"

export const messagesFormat: WireFormat = {
  endpoint: "messages",
  path: "/v1/messages",
  decodeRequest,
  encodeRequest,
  readReply,
  backendEvents,
  gatherer,
  streamFailure,
  failedReply: undefined,
}
