/**
 * What a wire format is to the gateway. Each folder here implements this once; the gateway never asks which
 * format it is telling. Everything is pure: bytes and objects in, bytes and objects out.
 */
import type { Tokens } from "../../actors/money/tokens.ts"
import type { JsonObject } from "../language/json.ts"
import type { ModelRequest, Endpoint, Forwarding } from "../language/request.ts"
import type { Failure } from "../failure/failure.ts"
import type { Allowance } from "./fields.ts"
import type { OpenPlaces } from "./shared/event-template.ts"
import type { SseEvent, WaitingEvents } from "./sse.ts"

export interface WireFormat {
  readonly endpoint: Endpoint
  /** The path that the gateway serves and that a backend of this format is called at, with its `/v1`. */
  readonly path: string
  /**
   * Checks the shape of a parsed body (decisions §4.8, state-naming fields of §8) and reads what admission needs.
   * `model` has been checked before. Features are found, not judged: that takes the catalogue.
   */
  decodeRequest(body: JsonObject, allowance?: Allowance): ModelRequest | Failure
  /** The body for a backend of this format: a copy of what was parsed, with what the gateway owns changed. */
  encodeRequest(request: ModelRequest, forwarding: Forwarding): JsonObject
  /** Reads a non-streaming 2xx body. A body that reports a failure of its own is a Failure. */
  readReply(body: JsonObject, view: ClientView): Reply | Failure
  /** A reader for the events of one stream. */
  backendEvents(view: ClientView): BackendEvents
  gatherer(): Gatherer
  /**
   * The in-stream report of a failure with whatever must surround it in this format (decisions §6), as bytes to send.
   * `started` says whether this stream's first event (message_start, response.created) has been sent to the client.
   */
  streamFailure(failure: Failure, context: FailureContext & { readonly started: boolean }): string
  /**
   * The body that reports a failure under a 200 which keepalives have committed (gateway-api.md, "POST /v1/responses").
   * Undefined where the format has no such body: there a non-streaming answer gets no keepalives.
   */
  readonly failedReply: ((failure: Failure, context: FailureContext) => JsonObject) | undefined
}

/** What of a format reads a backend's answers: all that a format needs which no client speaks. */
export type BackendReader = Pick<WireFormat, "readReply" | "backendEvents" | "gatherer">

/** What a report of a failure inside an answer says beside the failure. */
export interface FailureContext {
  readonly requestId: string
  /** The catalogue's id of the model. */
  readonly model: string
  /** From the reader of the stream that failed; left out when no stream was opened. */
  readonly position?: StreamPosition | undefined
  /** The time that a made-up answer object carries; 0 where left out. */
  readonly nowMs?: number
}

/**
 * Where a stream stands, for an event that the gateway adds to it. Only responses has one: its events are numbered, and
 * each of its closing events repeats the answer's identity.
 */
export interface StreamPosition {
  /** The number that the next event must carry. */
  readonly sequence: number
  readonly id: string | undefined
  /** Unix seconds. */
  readonly createdAt: number | undefined
}

/** Puts the events of a stream together into the body that a call without a stream would have got. */
export interface Gatherer {
  /** One event that is no failure; `body` is its data, undefined for data that is no JSON. */
  take(event: SseEvent, body: JsonObject | undefined): void
  /** What has come so far; all of it after the terminal event. */
  reply(): JsonObject
}

/** What the client is to see of an answer. */
export interface ClientView {
  /** The catalogue's id of the model that answers. */
  readonly model: string
  readonly includeUsage: boolean
}

export interface Reply {
  readonly body: JsonObject
  /** As the backend counted; undefined when that cannot be read (decisions §12.20, §13.2). */
  readonly tokens: Tokens | undefined
}

/**
 * One event of a backend's stream, as the gateway's relay must treat it.
 * - preamble: before any content, without content of its own (a role chunk, message_start, response.created, a ping, the
 *   finish of an empty answer): held back until content or the terminal event comes, or a heartbeat is due.
 * - content: usable output.
 * - trailer: after content, without content of its own (finish reason, block stop, usage): sent as it comes.
 * - terminal: the format's last event: withheld until the charge is durable.
 * - failure: the backend reports a failure inside its stream; nothing of it is sent.
 * The bytes may be empty: an event that the client is not to see, or one after the end.
 */
export type StreamStep = SentStep | { readonly kind: "failure"; readonly failure: Failure }

export interface SentStep {
  readonly kind: "preamble" | "content" | "trailer" | "terminal"
  readonly bytes: string
}

/** An event without content of its own is "empty"; a stream's last one is "terminal". */
export type EventMeaning = "content" | "empty" | "terminal" | Failure

/** One stream of a format, as its events are read. */
export interface BackendEvents {
  /** Data that ends the stream without being JSON. */
  readonly endMark?: string
  /** Takes note of what an event counts and where the stream stands, and says what it means. */
  meaning(event: SseEvent, body: JsonObject): EventMeaning
  /** The name that the event has for a client of the same format. */
  name(event: SseEvent, body: JsonObject): string
  /** Its data for such a client: as it came, but for what the gateway owns. Undefined where the client is not to see it. */
  data(event: SseEvent, body: JsonObject): string | undefined
  /** Places of an event with content that neither its meaning nor its data depend on. */
  readonly open: OpenPlaces
  /** An event went on without being read; `number` is what stood at the open place for one. */
  passed(number: number | undefined): void
  /** What has been counted so far; undefined where that cannot be read. */
  tokens(hasContent: boolean): Tokens | undefined
  position(): StreamPosition | undefined
}

export interface StreamReader {
  read(event: SseEvent): StreamStep
  /**
   * Takes those events off the front that need not be read one by one, which are content like content before them; what is
   * sent for them is added to `out`. Left out where each event is read.
   */
  pass?(events: WaitingEvents, out: string[]): void
  /** What the backend has counted so far, or undefined when that cannot be read. */
  tokens(): Tokens | undefined
  /** Undefined in formats that do not number their events. */
  position(): StreamPosition | undefined
}
