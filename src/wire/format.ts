/**
 * What a wire format is: the client's side of it, where clients speak it, and the backend's. Each folder here is one, and
 * nobody outside asks which it is talking to. Two of them make a translation by way of the neutral language (src/language), a
 * format's own backend none (exchange.ts). Everything is pure: bytes and objects in, bytes and objects out.
 */
import type { Tokens } from "../../actors/money/price.ts"
import type { ModelEvent, ModelReply, Prompt } from "../language/prompt.ts"
import type { JsonObject } from "../language/json.ts"
import type { Endpoint, Forwarding, ModelRequest, Target } from "../language/request.ts"
import type { Failure } from "../failure/failure.ts"
import type { Allowance } from "./fields.ts"
import type { OpenPlaces } from "./shared/json-gaps.ts"
import type { SseEvent, BufferedEvents } from "./sse.ts"

export interface Format {
  /** Undefined for what only backends speak. */
  readonly client?: ClientSide
  readonly backend: BackendSide
}

/** A format that clients speak. */
export interface ClientFormat extends Format {
  readonly client: ClientSide
}

export interface ClientSide {
  readonly endpoint: Endpoint
  /** What a call does, in the words of OpenTelemetry's conventions. */
  readonly operation: "chat" | "embeddings" | "text_completion"
  /** There is no such path while the catalogue has no model for it (gateway-api.md, "Method errors"). */
  readonly isOptional?: boolean
  /** A prompt may be a list of token ids, which are many and cost little. */
  readonly takesTokenIds?: boolean
  /** The path that the gateway serves and that a backend of this format is called at, with its `/v1`. */
  readonly path: string
  /** How the gateway counts a request's tokens for nothing, in formats that have it. */
  readonly counting?: TokenCounting
  /**
   * Checks the shape of a parsed body (decisions §4.8, state-naming fields of §8) and reads what admission needs.
   * `model` has been checked before. Features are found, not judged: that takes the catalogue. Texts that the account has sent before
   * are not estimated again; without an account nothing is remembered.
   */
  decodeRequest(body: JsonObject, allowance?: Allowance, accountId?: string): ModelRequest | Failure
  /** The body for a backend of this format: a copy of what was parsed, with what the gateway owns changed. */
  encodeRequest(request: ModelRequest, forwarding: Forwarding): JsonObject
  /** The request for a backend of another format. `request.body` has passed `decodeRequest`. */
  decodePrompt(request: ModelRequest): Prompt | Failure
  /** A refusal is told by its reason, and needs no words. */
  readonly refusesByReason?: boolean
  eventEncoder(view: AnswerView): EventEncoder
  encodeReply(reply: ModelReply, view: AnswerView): JsonObject
  /**
   * The in-stream report of a failure with whatever must surround it in this format (decisions §6), as bytes to send.
   * `started` says whether this stream's first event (message_start, response.created) has been sent to the client.
   */
  streamFailure(failure: Failure, context: FailureContext & { readonly started: boolean }): string
  /**
   * The body that reports a failure under a 200 which keepalives have committed (gateway-api.md, "POST /v1/responses").
   * Left out where the format has no such body: there a non-streaming answer gets no keepalives.
   */
  failedReply?(failure: Failure, context: FailureContext): JsonObject
}

/** A request's input tokens, asked for without an answer. */
export interface TokenCounting {
  readonly path: string
  /** What the same request would need beside what is counted. */
  readonly defaults: JsonObject
  /** What the answer says beside `input_tokens`. */
  readonly answer: Readonly<Record<string, string>>
}

export interface BackendSide {
  /**
   * The smallest answer limit that a backend of this format takes, where there is one. A client's smaller limit is raised
   * to it, so that is what the call has to hold for.
   */
  readonly minAnswerTokens?: number
  /** Everything of the prompt, or a refusal that names what this format cannot say. */
  encodePrompt(prompt: Prompt, request: ModelRequest, target: Target): EncodedPrompt | Failure
  /** Reads a non-streaming 2xx body. A body that reports a failure of its own is a Failure. */
  readReply(body: JsonObject, view: ClientView): Reply | Failure
  /** The same in the neutral language. */
  decodeReply(reply: Pick<Reply, "body">, prompt: Prompt): ModelReply | Failure
  /**
   * One stream. The prompt is the one that was encoded for this backend, for a client of another format: names that the
   * backend's format could not carry were written otherwise there, by a rule that can be followed back.
   */
  stream(view: ClientView, prompt?: Prompt): BackendStream
  gatherer(): Gatherer
}

/**
 * A body but for its answer limit, which is known only when money is held. The conversation is written once, however
 * often the body is sent.
 */
export type EncodedPrompt = (forwarding: Pick<Forwarding, "maxOutputTokens" | "stream">) => JsonObject

/**
 * An event without content of its own is "empty", or "working" where it shows that the model is at work on its answer: it thinks and shows
 * nothing of it, or searches. A stream's last one is "terminal".
 */
export type EventMeaning = "content" | "working" | "empty" | "terminal" | Failure

/** One stream of a backend, event by event. `body` is an event's data. */
export interface BackendStream {
  /** Data that ends the stream without being JSON. */
  readonly endMark?: string | undefined
  /** Takes note of what an event counts and where the stream stands, and says what it means. */
  meaning(event: SseEvent, body: JsonObject): EventMeaning
  /** The event for a client of the same format: as it came, but for what the gateway owns. Undefined where it is not to see it. */
  relayed(event: SseEvent, body: JsonObject): SseEvent | undefined
  /** The event for a client of another format. `body` is undefined for data that is no JSON, and still means something. */
  events(event: SseEvent, body: JsonObject | undefined): readonly ModelEvent[]
  /** Places of an event with content that neither its meaning nor what is sent of the rest depend on. */
  readonly openPlaces: OpenPlaces
  /** An event went on without being read; `number` is what stood at the open place for one. */
  onPassedThrough(number: number | undefined): void
  /** What has been counted so far; undefined where that cannot be read. */
  tokens(hasContent: boolean): Tokens | undefined
  /** How many searches the backend has run so far, bounded. */
  searches(): number
  /** Where the stream stands; undefined in formats that do not number their events. */
  position(): StreamPosition | undefined
}

export interface EventEncoder {
  /** Bytes for the client. Nothing is written for an event that says nothing in this format. */
  encode(event: ModelEvent): SentStep[]
  /** Where the client's stream stands, for a failure that is told in it. Left out in formats that number nothing. */
  position?(): StreamPosition
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
  /** Our estimate of the prompt, for formats that tell input counts at the start. Left out where nobody is told them. */
  readonly inputTokens?: number
}

/** What an answer says beside what the backend said. */
export interface AnswerView extends ClientView {
  /** Names the answer where the backend gave no id that this format could carry. */
  readonly requestId: string
  /** Unix milliseconds of the answer's beginning. */
  readonly nowMs: number
  readonly inputTokens: number
  /** The client's request: some formats repeat parts of it in the answer. */
  readonly request: ModelRequest
}

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

export interface Reply {
  readonly body: JsonObject
  /** As the backend counted; undefined when that cannot be read (decisions §12.20, §13.2). */
  readonly tokens: Tokens | undefined
  /** How many searches the backend ran, bounded. */
  readonly searches: number
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
  /** The model is at work on its answer, though the client is to see none of it yet. */
  readonly isWorking?: boolean
}

/** A backend's stream for one client. */
export interface StreamReader {
  read(event: SseEvent): StreamStep
  /**
   * Takes those events off the front that need not be read one by one, which are content like content before them; what is
   * sent for them is added to `out`. Left out where each event is read.
   */
  passThrough?(events: BufferedEvents, out: string[]): void
  /** What the backend has counted so far, or undefined when that cannot be read. */
  tokens(): Tokens | undefined
  /** How many searches it has run so far, bounded. */
  searches(): number
  /** Undefined in formats that do not number their events. */
  position(): StreamPosition | undefined
}
