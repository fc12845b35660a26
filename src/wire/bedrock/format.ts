/** Converse and the neutral language, assembled. Only backends speak it, so there is no client's side. */
import type { BackendCodec } from "../codec.ts"
import type { BackendReader } from "../format.ts"
import { backendEvents, eventDecoder } from "./events-in.ts"
import { gatherer } from "./gather.ts"
import { encodePrompt } from "./prompt-out.ts"
import { decodeReply, readReply } from "./reply.ts"

export const converseCodec: BackendCodec = { encodePrompt, eventDecoder, decodeReply }

export const converseReader: BackendReader = { readReply, backendEvents, gatherer }
