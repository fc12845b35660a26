/**
 * Relays one backend's stream to one client. The stream is read to its end, as fast as the backend sends. Events are passed on as
 * they come; the first ones without content and the terminal one are buffered. Usage is read on the way (decisions §6).
 */
import type { Clock } from "../../actors/kernel/clock.ts"
import { Failure } from "../failure/failure.ts"
import type { AnswerBounds } from "../upstream/body.ts"
import { type Fault, brokenFault, connectionFault, overlongFault } from "../upstream/client.ts"
import type { SentStep, StreamPosition, StreamReader } from "../wire/format.ts"
import { type BufferedEvents, SseParser } from "../wire/sse.ts"
import type { OutputMeter } from "./call-costs.ts"

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
  /** The backend sent an event. A part of an event does not count. */
  onBackendActivity(): void
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
      if (event instanceof Failure) end = overlongFault
      else {
        const step = this.#reader.read(event)
        if (step.kind === "failure") end = brokenFault(step.failure)
        else if (step.kind === "terminal") end = { terminal: this.#takeBuffered() + step.bytes }
        else this.#add(step, out)
      }
    }
    if (hasEvent || out.length > 0) this.#call.onBackendActivity()
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

  #add({ kind, bytes }: SentStep, out: string[]): void {
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
