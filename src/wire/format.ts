/**
 * What a wire format is to the gateway. Each folder here implements this once; the gateway's story never asks which
 * format it is telling. Everything is pure: bytes and objects in, bytes and objects out.
 */
import type { Tokens } from "../../actors/money/tokens.ts"
import type { JsonObject } from "../chat/json.ts"
import type { ChatRequest, Endpoint, Forwarding } from "../chat/request.ts"
import type { Failure } from "../failure/failure.ts"
import type { SseEvent } from "./sse.ts"

export interface WireFormat {
  readonly endpoint: Endpoint
  /** The path that the gateway serves and that a backend of this format is called at, with its `/v1`. */
  readonly path: string
  /**
   * Checks the shape of a parsed body (decisions §4.8, state-naming fields of §8) and reads what admission needs.
   * `model` has been checked before. Features are found, not judged: that takes the catalogue.
   */
  decodeRequest(body: JsonObject): ChatRequest | Failure
  /** The body for a backend of this format: a copy of what was parsed, with what the gateway owns changed. */
  encodeRequest(request: ChatRequest, forwarding: Forwarding): JsonObject
  /** Reads a non-streaming 2xx body. A body that reports a failure of its own is a Failure. */
  readReply(body: JsonObject, view: ClientView): Reply | Failure
  /** A reader for one stream. */
  streamReader(view: ClientView): StreamReader
  /**
   * The in-stream report of a failure with whatever must surround it in this format (decisions §6), as bytes to send.
   * `started` says whether this stream's first event (message_start, response.created) has been sent to the client.
   */
  streamFailure(failure: Failure, context: { readonly requestId: string; readonly model: string; readonly started: boolean }): string
}

/** What the client is to see of an answer. */
export interface ClientView {
  /** The catalogue's id of the model that answers. */
  readonly model: string
  readonly includeUsage: boolean
  /** Bounds of believable counts; a null window means only safe integers bound them. */
  readonly contextWindow: number | null
  readonly maxOutputTokens: number
}

export interface Reply {
  readonly body: JsonObject
  /** Undefined when the counts are missing or not believable (decisions §2, §12.20). */
  readonly tokens: Tokens | undefined
}

/**
 * One event of a backend's stream, as the gateway's relay must treat it.
 * - preamble: carries no content (a role chunk, message_start, response.created, a ping): held back until content comes.
 * - content: usable output.
 * - trailer: after content, without content of its own (finish reason, block stop, usage): sent as it comes.
 * - terminal: the format's last event: withheld until the charge is durable.
 * - failure: the backend reports a failure inside its stream; nothing of it is sent.
 */
export type StreamStep =
  | { readonly kind: "preamble" | "content" | "trailer" | "terminal"; readonly bytes: string }
  | { readonly kind: "failure"; readonly failure: Failure }

export interface StreamReader {
  read(event: SseEvent): StreamStep
  /** The counts gathered so far, or undefined when missing or not believable. */
  tokens(): Tokens | undefined
}
