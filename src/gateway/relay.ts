/**
 * Relays one backend's stream to one client. The stream is read to its end, as fast as the backend sends. Events are passed on as
 * they come; the first ones without content and the terminal one are buffered. Usage is read on the way (decisions §6).
 *
 * And delivers responses that are large but cheap: embedding vectors, and prompts that are echoed with log probabilities. Their memory is
 * reserved beside the account's request bodies (read-body.ts), from before the call is forwarded until the client has the whole
 * response, so that nobody fills the memory with responses that they do not read. Sizes in bytes.
 */
import type { Clock } from "../../actors/kernel/clock.ts"
import { Failure } from "../failure/failure.ts"
import { present } from "../language/json.ts"
import type { ModelRequest } from "../language/request.ts"
import type { AnswerBounds } from "../upstream/body.ts"
import { brokenFault, connectionFault, type Fault, overlongFault } from "../upstream/client.ts"
import { DEEPEST_NESTING, extentOf } from "../wire/body.ts"
import type { SentStep, StreamPosition, StreamReader } from "../wire/format.ts"
import { type BufferedEvents, SseParser } from "../wire/sse.ts"
import type { OutputMeter } from "./call-costs.ts"
import { type Answer, Outbox, type StreamConnection, UnreadBytes } from "./outbox.ts"
import type { GatewayPorts } from "./ports.ts"
import type { BodyMemory, BodyReservation } from "./read-body.ts"

/** The most that is buffered, in UTF-16 units: twice a coding agent's instructions and tools, which events may echo. */
const MAX_BUFFERED_LENGTH = 131_072
/** The stream came to its terminal event, whose bytes leave once the charge is durable. */
interface StreamComplete {
  readonly terminal: string
}

/** Where a relay writes to, and reports to: its call. */
export interface RelayTarget {
  /** Text for the client. */
  write(text: string): void
  /** The backend sent an event. A part of an event does not count. `isAnswering`: it has begun to answer, also where the client sees none of it. */
  onBackendActivity(isAnswering?: boolean): void
  /** Something of this stream is about to be written. */
  onCommit(): void
}

/** What an attempt learns of its stream. */
interface RelayWatch {
  /** Run at the first usable output. */
  readonly onContent: () => void
  readonly output: Pick<OutputMeter, "event" | "unread">
}

export class Relay {
  readonly #reader: StreamReader
  readonly #bounds: AnswerBounds
  readonly #call: RelayTarget
  readonly #watch: RelayWatch
  #buffered = ""
  #committed = false
  #usable = false
  #isAnswering = false

  constructor(reader: StreamReader, bounds: AnswerBounds, call: RelayTarget, watch: RelayWatch) {
    this.#reader = reader
    this.#bounds = bounds
    this.#call = call
    this.#watch = watch
  }

  /** The client has been sent something of this stream, which therefore cannot be begun again unseen. */
  get committed(): boolean {
    return this.#committed
  }
  /** Where the client's stream stands. */
  position(): StreamPosition | undefined {
    return this.#reader.position()
  }

  /** Writes the buffered events, because the client has waited too long for a sign of life. False where there are none. */
  flush(): boolean {
    if (this.#buffered === "") return false
    this.#call.write(this.#takeBuffered())
    return true
  }

  /** The buffered events, which are sent now. */
  #takeBuffered(): string {
    if (!this.#committed) {
      this.#committed = true
      this.#call.onCommit()
    }
    const buffered = this.#buffered
    this.#buffered = ""
    return buffered
  }

  async run(body: ReadableStream<Uint8Array>, clock: Clock): Promise<StreamComplete | Fault> {
    const end = await readEvents(body, this.#bounds, clock, (events) => this.#relay(events))
    // A heartbeat must not send the rest of the buffer any more: it belongs to an answer that came to nothing.
    this.#buffered = ""
    return end
  }

  /** What came together goes out together. */
  #relay(events: BufferedEvents): StreamComplete | Fault | undefined {
    const out: string[] = []
    let end: StreamComplete | Fault | undefined
    let hasEvent = false
    while (end === undefined) {
      this.#passThrough(events, out)
      const event = events.next()
      if (event === undefined) break
      hasEvent = true
      if (event instanceof Failure || isTooComplex(event.data, this.#bounds, EVENT_NESTING)) end = overlongFault
      else {
        const step = this.#reader.read(event)
        if (step.kind === "failure") end = brokenFault(step.failure)
        else if (step.kind === "terminal") end = { terminal: this.#takeBuffered() + step.bytes }
        else this.#add(step, out)
      }
    }
    if (hasEvent || out.length > 0) this.#call.onBackendActivity(this.#isAnswering)
    if (out.length > 0) this.#call.write(out.join(""))
    return end
  }

  /** What goes on unread is content. */
  #passThrough(events: BufferedEvents, out: string[]): void {
    if (this.#reader.passThrough === undefined) return
    const before = out.length
    this.#reader.passThrough(events, out)
    let length = 0
    for (let index = before; index < out.length; index++) length += out[index]?.length ?? 0
    if (length > 0) this.#watch.output.unread(length)
  }

  #add({ kind, bytes, isWorking }: SentStep, out: string[]): void {
    if (isWorking === true) this.#isAnswering = true
    if (kind === "preamble" && !this.#committed) {
      this.#buffered += bytes
      if (this.#buffered.length > MAX_BUFFERED_LENGTH) out.push(this.#takeBuffered())
      return
    }
    if (kind === "content") {
      this.#watch.output.event(bytes.length)
      if (!this.#usable) this.#watch.onContent()
      this.#usable = true
      if (!this.#committed) out.push(this.#takeBuffered())
    }
    if (bytes !== "") out.push(bytes)
  }
}

/** How long a backend may take to close a stream after its last event, for the connection to be used again. */
const CLOSE_MS = 1_000

/**
 * `read` takes the events that came together; it is undefined where more have to come. A stream that ends before it has come
 * to an end is a broken connection. What it throws is a bug of ours.
 */
export async function readEvents<End>(
  body: ReadableStream<Uint8Array>,
  bounds: AnswerBounds,
  clock: Clock,
  read: (events: BufferedEvents) => End | Fault | undefined,
): Promise<End | Fault> {
  const reader = body.getReader()
  const parser = new SseParser({ maxEventSize: bounds.eventLength })
  let size = 0
  try {
    for (;;) {
      let piece: Awaited<ReturnType<typeof reader.read>>
      try {
        piece = await reader.read()
      } catch {
        return connectionFault(true)
      }
      const { done, value } = piece
      size += value?.length ?? 0
      if (size > bounds.streamBytes) return overlongFault
      if (done) parser.end()
      else parser.feed(value)
      const end = read(parser)
      if (end !== undefined) return end
      if (done) return connectionFault(true)
    }
  } finally {
    void finish(reader, clock)
  }
}

/**
 * Always read or cancel: a body that is left alone keeps its connection. Not a wait of the call's own, which may be at
 * its next backend by then.
 */
async function finish(reader: ReadableStreamDefaultReader<Uint8Array>, clock: Clock): Promise<void> {
  const timer = clock.after(CLOSE_MS, () => void reader.cancel().catch(() => {}))
  try {
    while (!(await reader.read()).done);
  } catch {
    // The connection broke; there is nothing left to give back.
  } finally {
    timer.cancel()
  }
}

/** One vector of 3,072 dimensions, which few models exceed, in base64 and in digits. */
const VECTOR = { base64: 16_384, numbers: 49_152 }
/** One echoed token: its text, or a few candidates with their log probabilities. */
const ECHOED_TOKEN = { text: 8, likely: 512 }

/** What of a request says how many values its answer may have. */
type RequestedShape = Pick<ModelRequest, "endpoint" | "prompts" | "body">

/** How many vectors the request asks for. */
export const vectorsOf = ({ endpoint, prompts = 1 }: RequestedShape): number =>
  endpoint === "embeddings" ? prompts : 0

/** How many tokens of the prompt are echoed. */
export const echoedTokens = ({ body, inputTokens }: ModelRequest): number => (body["echo"] === true ? inputTokens : 0)

export const isLargeForPrice = (request: ModelRequest): boolean => vectorsOf(request) > 0 || echoedTokens(request) > 0

/** The responses format names them among what an answer is to include. */
const INCLUDED_LOGPROBS = "message.output_text.logprobs"

export const wantsLogprobs = ({ body: { logprobs, top_logprobs: likeliest, include } }: RequestedShape): boolean =>
  present(logprobs) || present(likeliest) || (Array.isArray(include) && include.includes(INCLUDED_LOGPROBS))

/** Answers, or single events of one, up to so many UTF-16 units are parsed as they are. */
const HARMLESS_LENGTH = 16_384

/** An event wraps a response, which repeats the request's tools. */
export const EVENT_NESTING = DEEPEST_NESTING + 1

/** Parsing costs by values more than by bytes, and only likelihoods of tokens and vectors are so many. What nests too deep cannot be written. */
export function isTooComplex(text: string, bounds: Pick<AnswerBounds, "values">, deepest = DEEPEST_NESTING): boolean {
  if (text.length <= HARMLESS_LENGTH) return false
  const { depth, values, room } = extentOf(Buffer.from(text), bounds.values, deepest)
  return depth > deepest || values + room > bounds.values
}

/**
 * An upper estimate of a response in one piece, and at most a quarter of the memory, so that it finds room. 0 for responses whose
 * tokens are paid for, which are small.
 */
export function answerBytesOf(request: ModelRequest, { total }: BodyMemory): number {
  const { body, stream } = request
  if (stream) return 0
  const vector = body["encoding_format"] === "base64" ? VECTOR.base64 : VECTOR.numbers
  const echoed = present(body["logprobs"]) ? ECHOED_TOKEN.likely : ECHOED_TOKEN.text
  return Math.min(vectorsOf(request) * vector + echoedTokens(request) * echoed, Math.floor(total / 4))
}

/** A larger body is streamed. */
const SINGLE_WRITE_BYTES = 262_144

export interface BodyDelivery {
  readonly ports: Pick<GatewayPorts, "clock" | "limits">
  readonly connection: StreamConnection | undefined
  readonly request: Pick<Request, "signal">
  /** Freed when the client has the response or has left. */
  reservation?: BodyReservation
}

/**
 * The body as it is sent; its reservation ends when the client has read it. A large one is sent in pieces: the client has time for each,
 * and not only as long as an idle connection is kept.
 */
export function deliverBody(
  body: Answer["body"],
  { ports, connection, request, reservation }: BodyDelivery,
): Answer["body"] {
  const free = () => reservation?.[Symbol.dispose]()
  if (typeof body !== "string" || body.length <= SINGLE_WRITE_BYTES || request.signal.aborted) {
    free()
    return body
  }
  // The body is in memory already, so a refusal changes nothing.
  reservation?.reserve(Buffer.byteLength(body))
  const { clock, limits } = ports
  // It is whole, and bounded by itself or by the account's reservation, so it is not counted among the unread bytes.
  const unread = new UnreadBytes(Infinity)
  const outbox = new Outbox({ clock, limits, unread }, { onLeave: free, onDelivered: free }, connection)
  outbox.write(body)
  outbox.end()
  request.signal.addEventListener("abort", () => outbox.leave())
  return outbox.stream()
}
