/**
 * A backend's stream to a client, one event at a time. Each event is parsed once: what it means is read by its own format,
 * and then it goes on as it came, for a client of the same format, or by way of the neutral language, for one of another.
 */
import type { Tokens } from "../../actors/money/price.ts"
import type { ModelEvent } from "../language/prompt.ts"
import type { JsonObject } from "../language/json.ts"
import type { Endpoint } from "../language/request.ts"
import { Failure } from "../failure/failure.ts"
import type {
  BackendStream,
  ClientView,
  EventEncoder,
  EventMeaning,
  Gatherer,
  SentStep,
  StreamPosition,
  StreamReader,
  StreamStep,
} from "./format.ts"
import { EventShape, type EventTemplate } from "./shared/event-template.ts"
import { encodeSse, eventObject, type SseEvent, type BufferedEvents } from "./sse.ts"

const broken = (): Failure => new Failure("dependency.upstream_unavailable")

/** What an event means that is not empty; `body` is undefined where its data is no JSON. */
function meaningOf(stream: BackendStream, event: SseEvent, body: JsonObject | undefined): EventMeaning {
  if (body !== undefined) return stream.meaning(event, body)
  return event.data === stream.endMark ? "terminal" : broken()
}

/** The most templates that are kept, for events of several kinds that take turns. */
const MAX_TEMPLATES = 4
/** After so many templates that no event matched, a stream is not of the kind that has them. */
const MAX_IN_VAIN = 16

/** So many kinds of streams, and then it is learned anew. */
const MAX_KINDS = 1_000
/** By what is the same of all streams of a kind: their format, and what of it the client is to see. */
const shapes = new Map<string, EventShape[]>()

/** What streams like this one have had in common. */
export function shapesFor(endpoint: Endpoint, { model, includeUsage }: ClientView): EventShape[] {
  const kind = `${endpoint} ${String(includeUsage)} ${model}`
  const known = shapes.get(kind)
  if (known !== undefined) return known
  if (shapes.size === MAX_KINDS) shapes.clear()
  const none: EventShape[] = []
  shapes.set(kind, none)
  return none
}

/** For a client of the backend's own format. */
export class RelayedStream implements StreamReader {
  readonly #stream: BackendStream
  readonly #steps = new Steps()
  readonly #templates: EventTemplate[] = []
  /** Of all streams like this one. */
  readonly #shapes: EventShape[]
  #inVain = 0

  constructor(stream: BackendStream, shapes: EventShape[] = []) {
    this.#stream = stream
    this.#shapes = shapes
  }

  passThrough(events: BufferedEvents, out: string[]): void {
    const text = this.#templates.length === 0 || this.#steps.ended ? "" : events.ahead
    if (text === "") return
    let at = events.place
    /** From here on it goes out as it came. */
    let from = at
    while (at < text.length) {
      const length = out.length
      const end = this.#match(text, at, out)
      if (end < 0) break
      const isWritten = out.length > length
      if (isWritten && from < at) out.splice(length, 0, text.slice(from, at))
      at = end
      if (isWritten) from = at
    }
    if (from < at) out.push(text.slice(from, at))
    events.place = at
  }

  read(event: SseEvent): StreamStep {
    const stream = this.#stream
    if (this.#steps.ended || event.data === "") return this.#steps.nothing()
    const alike = this.#templates.length === 0 ? undefined : this.#alike(event)
    if (alike !== undefined) return this.#steps.step(true, alike)
    const body = eventObject(event)
    const meaning = meaningOf(stream, event, body)
    if (meaning instanceof Failure) return this.#steps.failure(meaning)
    const sent = body === undefined ? { event: "", data: event.data } : stream.relayed(event, body)
    const bytes = sent === undefined ? "" : encodeSse(sent.event, sent.data)
    if (meaning === "terminal") return this.#steps.terminal(bytes)
    if (meaning === "content" && sent !== undefined) this.#learn(event, sent, bytes)
    const step = this.#steps.step(meaning === "content", bytes)
    return meaning === "working" ? { ...step, isWorking: true } : step
  }

  tokens(): Tokens | undefined {
    return this.#stream.tokens(this.#steps.hasContent)
  }

  searches(): number {
    return this.#stream.searches()
  }

  position(): StreamPosition | undefined {
    return this.#stream.position()
  }

  /** What is sent for an event that is like one before it, but stood in the stream in another spelling, or in two pieces. */
  #alike({ event, data }: SseEvent): string | undefined {
    const text = encodeSse(event, data)
    const out: string[] = []
    if (this.#match(text, 0, out) !== text.length) return undefined
    return out.length === 0 ? text : out.join("")
  }

  #match(text: string, at: number, out: string[]): number {
    for (const template of this.#templates) {
      const end = template.match(text, at, out)
      if (end < 0) continue
      this.#inVain = 0
      this.#stream.onPassedThrough(template.number)
      return end
    }
    return -1
  }

  #learn(came: SseEvent, sent: SseEvent, bytes: string): void {
    if (this.#inVain === MAX_IN_VAIN) return
    const template = this.#templateFor(came, sent, bytes)
    if (template === undefined) return
    this.#inVain++
    this.#templates.unshift(template)
    if (this.#templates.length > MAX_TEMPLATES) this.#templates.pop()
  }

  #templateFor(came: SseEvent, sent: SseEvent, bytes: string): EventTemplate | undefined {
    const text = encodeSse(came.event, came.data)
    for (const shape of this.#shapes) {
      const template = shape.templateFor(text, bytes)
      if (template !== undefined) return template
    }
    const shape = EventShape.of(came, sent, this.#stream.openPlaces)
    if (shape === undefined) return undefined
    this.#shapes.unshift(shape)
    if (this.#shapes.length > MAX_TEMPLATES) this.#shapes.pop()
    return shape.templateFor(text, bytes)
  }
}

/** For a client of another format. The backend's own format knows what was used, what failed and where the end is. */
export class TranslatedStream implements StreamReader {
  readonly #stream: BackendStream
  readonly #encoder: EventEncoder
  #hasContent = false
  #ended = false

  constructor(stream: BackendStream, encoder: EventEncoder) {
    this.#stream = stream
    this.#encoder = encoder
  }

  read(event: SseEvent): StreamStep {
    if (this.#ended || event.data === "") return this.#written([])
    const body = eventObject(event)
    const meaning = meaningOf(this.#stream, event, body)
    if (meaning instanceof Failure || meaning === "terminal") this.#ended = true
    if (meaning instanceof Failure) return { kind: "failure", failure: meaning }
    if (meaning === "content") this.#hasContent = true
    return this.#written(this.#stream.events(event, body), meaning !== "empty")
  }

  tokens(): Tokens | undefined {
    return this.#stream.tokens(this.#hasContent)
  }

  searches(): number {
    return this.#stream.searches()
  }

  position(): StreamPosition | undefined {
    return this.#encoder.position?.()
  }

  /** All of it as one step: a terminal event takes what stands before it along. */
  #written(said: readonly ModelEvent[], isWorking = false): SentStep {
    let bytes = ""
    let kind: SentStep["kind"] = "preamble"
    for (const event of said)
      for (const step of this.#encoder.encode(event)) {
        bytes += step.bytes
        if (RANK[step.kind] > RANK[kind]) kind = step.kind
      }
    return isWorking && kind === "preamble" ? { kind, bytes, isWorking } : { kind, bytes }
  }
}

const RANK = { preamble: 0, trailer: 1, content: 2, terminal: 3 } as const

/** What reading one event of an answer that is gathered came to. */
export type Gathering = "more" | "working" | "whole" | "overlong" | Failure

/** For a client that is told the answer whole. What is held is bounded, by its length in JSON, in UTF-16 units. */
export class GatheredStream {
  readonly #stream: BackendStream
  readonly #gatherer: Gatherer
  readonly #mostLength: number
  /** What has come since the length was last looked at. */
  #unmeasured = 0
  #hasContent = false

  constructor(stream: BackendStream, gatherer: Gatherer, mostLength: number) {
    this.#stream = stream
    this.#gatherer = gatherer
    this.#mostLength = mostLength
  }

  /** Usable output has come. */
  get hasContent(): boolean {
    return this.#hasContent
  }

  /** Not to be asked after the end. */
  read(event: SseEvent): Gathering {
    if (event.data === "") return "more"
    const body = eventObject(event)
    const meaning = meaningOf(this.#stream, event, body)
    if (meaning instanceof Failure) return meaning
    if (meaning === "content") this.#hasContent = true
    this.#gatherer.take(event, body)
    this.#unmeasured += event.data.length
    if (this.#unmeasured > this.#mostLength) {
      this.#unmeasured = 0
      if (JSON.stringify(this.#gatherer.reply()).length > this.#mostLength) return "overlong"
    }
    return meaning === "terminal" ? "whole" : meaning === "working" ? "working" : "more"
  }

  /** What was counted of what has come, also of an answer that breaks off. */
  tokens(): Tokens | undefined {
    return this.#stream.tokens(this.#hasContent)
  }

  searches(): number {
    return this.#stream.searches()
  }

  /** The body as the backend would have sent it in one piece. */
  reply(): JsonObject {
    return this.#gatherer.reply()
  }
}

/**
 * Where one stream stands, which is the same in every format: has usable output come, is it over. A step's kind follows
 * from that, so the formats only say whether an event carries content.
 */
export class Steps {
  #content = false
  #ended = false

  /** True after the terminal event or a failure: whatever a backend sends then is ignored. */
  get ended(): boolean {
    return this.#ended
  }

  /** Usable output has come. */
  get hasContent(): boolean {
    return this.#content
  }

  /** An event without content is a preamble until content came, and a trailer from then on. */
  step(hasContent: boolean, bytes: string): SentStep {
    if (hasContent) {
      this.#content = true
      return { kind: "content", bytes }
    }
    return { kind: this.#content ? "trailer" : "preamble", bytes }
  }

  terminal(bytes: string): SentStep {
    this.#ended = true
    return { kind: "terminal", bytes }
  }

  failure(failure: Failure): StreamStep {
    this.#ended = true
    return { kind: "failure", failure }
  }

  /** For what is not to reach the client. */
  nothing(): SentStep {
    return this.step(false, "")
  }
}
