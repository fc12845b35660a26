/** Converse, assembled. Only backends speak it. */
import type { Format } from "../format.ts"
import { backendStream } from "./events-in.ts"
import { decodeReply, gatherer, readReply } from "./reply.ts"
import { encodePrompt } from "./prompt-out.ts"

export const converseFormat: Format = {
  backend: { encodePrompt, readReply, decodeReply, stream: backendStream, gatherer },
}
