/**
 * Relays one backend's stream to one client: hands events on as they come, holds back the first ones that carry nothing
 * and the terminal one, and gathers usage in passing (decisions §6).
 */
import type { Clock } from "../../actors/kernel/clock.ts"
import type { AnswerBounds } from "../upstream/answer-bounds.ts"
import { Failure } from "../failure/failure.ts"
import { brokenFault, type Fault, overlongFault } from "../upstream/client.ts"
import type { SentStep, StreamPosition, StreamReader } from "../wire/format.ts"
import type { WaitingEvents } from "../wire/sse.ts"
import { readEvents } from "./backend-events.ts"
import type { Received } from "./call-costs.ts"

/** The most that is held back, in UTF-16 units: twice a coding agent's instructions and tools, which events may echo. */
const HELD_LENGTH = 131_072
/** The stream came to its terminal event, whose bytes leave once the charge is durable. */
export interface StreamComplete {
  readonly terminal: string
}

/** What a relay tells its call. */
export interface Relayed {
  /** Text for the client. */
  write(text: string): void
  /** The backend sent an event. Pieces of one are no life sign. */
  heard(): void
  /** Something of this stream is about to be written. */
  committed(): void
}

/** What whoever tries a backend learns of its stream. */
export interface RelayWatch {
  /** Run at the first usable output. */
  readonly onContent: () => void
  readonly received: Pick<Received, "event" | "unread">
}

export class Relay {
  readonly #reader: StreamReader
  readonly #bounds: AnswerBounds
  readonly #call: Relayed
  readonly #watch: RelayWatch
  #held = ""
  #committed = false
  #usable = false

  constructor(reader: StreamReader, bounds: AnswerBounds, call: Relayed, watch: RelayWatch) {
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

  /** Writes what is held back, because the client has waited for so long that it must hear something. False without any. */
  release(): boolean {
    if (this.#held === "") return false
    this.#call.write(this.#takeHeld())
    return true
  }

  /** What was held back, to be sent now. */
  #takeHeld(): string {
    if (!this.#committed) {
      this.#committed = true
      this.#call.committed()
    }
    const held = this.#held
    this.#held = ""
    return held
  }

  async run(body: ReadableStream<Uint8Array>, clock: Clock): Promise<StreamComplete | Fault> {
    const end = await readEvents(body, this.#bounds, clock, (events) => this.#relay(events))
    // What is still held belongs to an answer that came to nothing; a heartbeat must not send it any more.
    this.#held = ""
    return end
  }

  /** What came together goes out together. */
  #relay(events: WaitingEvents): StreamComplete | Fault | undefined {
    const out: string[] = []
    let end: StreamComplete | Fault | undefined
    let hasEvent = false
    while (end === undefined) {
      this.#pass(events, out)
      const event = events.next()
      if (event === undefined) break
      hasEvent = true
      if (event instanceof Failure) end = overlongFault
      else {
        const step = this.#reader.read(event)
        if (step.kind === "failure") end = brokenFault(step.failure)
        else if (step.kind === "terminal") end = { terminal: this.#takeHeld() + step.bytes }
        else this.#add(step, out)
      }
    }
    if (hasEvent || out.length > 0) this.#call.heard()
    if (out.length > 0) this.#call.write(out.join(""))
    return end
  }

  /** What goes on unread is content. */
  #pass(events: WaitingEvents, out: string[]): void {
    if (this.#reader.pass === undefined) return
    const before = out.length
    this.#reader.pass(events, out)
    let length = 0
    for (let index = before; index < out.length; index++) length += out[index]?.length ?? 0
    if (length > 0) this.#watch.received.unread(length)
  }

  #add({ kind, bytes }: SentStep, out: string[]): void {
    if (kind === "preamble" && !this.#committed) {
      this.#held += bytes
      if (this.#held.length > HELD_LENGTH) out.push(this.#takeHeld())
      return
    }
    if (kind === "content") {
      this.#watch.received.event(bytes.length)
      if (!this.#usable) this.#watch.onContent()
      this.#usable = true
      if (!this.#committed) out.push(this.#takeHeld())
    }
    if (bytes !== "") out.push(bytes)
  }
}
