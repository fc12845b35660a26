/** Converse, assembled. Only backends speak it. */
import type { Format } from "../format.ts"
import { backendStream } from "./events-in.ts"
import { gatherer } from "./gather.ts"
import { encodePrompt } from "./prompt-out.ts"
import { decodeReply, readReply } from "./reply.ts"

export const converseFormat: Format = {
  backend: { encodePrompt, readReply, decodeReply, stream: backendStream, gatherer },
}
