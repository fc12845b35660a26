/**
 * What a wire format is to the neutral language: both sides of it, each both ways. Two codecs make a translation
 * (exchange.ts); a format's own backend never goes through here.
 */
import type { ModelEvent, ModelReply } from "../language/event.ts"
import type { JsonObject } from "../language/json.ts"
import type { Prompt } from "../language/prompt.ts"
import type { ModelRequest, Endpoint, Forwarding, Target } from "../language/request.ts"
import type { Failure } from "../failure/failure.ts"
import type { ClientView, Reply, SentStep, StreamPosition } from "./format.ts"
import type { SseEvent } from "./sse.ts"

export interface WireCodec {
  readonly endpoint: Endpoint
  /**
   * The smallest answer limit that a backend of this format takes, where there is one. A client's smaller limit is raised
   * to it, so that is what the call has to hold for.
   */
  readonly leastAnswerTokens?: number

  /** A client's request. `request.body` has passed this format's own `decodeRequest`. */
  decodePrompt(request: ModelRequest): Prompt | Failure
  /** A backend's request body: everything of the prompt, or a refusal that names what this format cannot say. */
  encodePrompt(prompt: Prompt, request: ModelRequest, target: Target): EncodedPrompt | Failure

  /**
   * A backend's stream, one event at a time. The prompt is the one that was encoded for this backend: names that its
   * format could not carry were written otherwise there, by a rule that can be followed back.
   */
  eventDecoder(prompt: Prompt): EventDecoder
  /** A client's stream. */
  eventEncoder(view: AnswerView): EventEncoder

  /** A backend's whole answer, which has passed this format's `readReply`. */
  decodeReply(reply: Reply, prompt: Prompt): ModelReply | Failure
  /** A client's whole answer. */
  encodeReply(reply: ModelReply, view: AnswerView): JsonObject
}

/**
 * A body but for its answer limit, which is known only when money is held. The conversation is written once, however
 * often the body is sent.
 */
export type EncodedPrompt = (forwarding: Pick<Forwarding, "maxOutputTokens" | "stream">) => JsonObject

/** The backend's side of a codec: all that a format needs which no client speaks. */
export type BackendCodec = Pick<WireCodec, "leastAnswerTokens" | "encodePrompt" | "eventDecoder" | "decodeReply">

export interface EventDecoder {
  /** `body` is the event's data; undefined for data that is no JSON, and still means something. */
  decode(event: SseEvent, body: JsonObject | undefined): ModelEvent[]
}

export interface EventEncoder {
  /** Bytes for the client. Nothing is written for an event that says nothing in this format. */
  encode(event: ModelEvent): SentStep[]
  /** Where the client's stream stands, for a failure that is told in it. Left out in formats that number nothing. */
  position?(): StreamPosition
}

/** What an encoded answer says beside what the backend said. */
export interface AnswerView extends ClientView {
  /** Names the answer where the backend gave no id that this format could carry. */
  readonly requestId: string
  /** Unix milliseconds of the answer's beginning. */
  readonly nowMs: number
  /** Our estimate of the prompt, for formats that tell input counts at the start. */
  readonly inputTokens: number
  /** The client's request: some formats repeat parts of it in the answer. */
  readonly request: ModelRequest
}
