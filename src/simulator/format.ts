/**
 * What a wire format is to the simulator: how it reads a request, and how it tells an answer, whole or in events.
 * Everything is pure, so that a format's file can be read against the vendor's documentation and nothing else.
 * None of this is shared with the gateway's own codecs: two readings of one wire check each other.
 */
import type { JsonObject } from "../language/json.ts"
import type { Answer } from "./answer.ts"
import type { Ask } from "./ask.ts"
import type { Complaint } from "./fault.ts"
import type { Caching, PromptBlock } from "./prefix-cache.ts"

/** An answer as an error: the status that a vendor sends with it, and what it says. */
export interface VendorError {
  readonly status: number
  readonly message: string
  readonly type: string
  readonly code: string | null
  readonly param: string | null
}

/** Content frames are what `after` and `pace` count; exactly the last frame is terminal. */
export interface Frame {
  readonly kind: "preamble" | "content" | "trailer" | "terminal"
  readonly bytes: string
}

export interface AnswerStream {
  readonly frames: Iterable<Frame>
  /** The in-stream error event, in the place of the frame that was read last. */
  errorEvent(error: VendorError): string
  /** An event whose data is cut off in the middle of its JSON. */
  garbage(): string
  /** `response.failed`, in the one format that has it. */
  failedEvent?(error: VendorError): string
}

export interface SimulatedFormat {
  readonly name: "chat" | "messages" | "responses" | "completions" | "embeddings"
  readonly path: string
  /** The request id and rate headers that the vendor sends with every answer. */
  headers(serial: string): Record<string, string>
  /** A text is what is wrong with the request. */
  readAsk(body: JsonObject): Ask | string
  readonly caching: Caching
  /** What of a body a cache of prompts knows it by. */
  promptBlocks(body: JsonObject): PromptBlock[]
  stream(answer: Answer, ask: Ask): AnswerStream
  reply(answer: Answer, ask: Ask): JsonObject
  /** The failed object under HTTP 200, in the one format that has it. */
  failedReply?(answer: Answer, error: VendorError): JsonObject
  readonly complaints: Readonly<Record<Complaint, VendorError>>
  /** The error that the vendor sends with a status. */
  statusError(status: number): VendorError
  errorBody(error: VendorError, serial: string): JsonObject
}
