/**
 * Relays one backend's stream to one client: hands events on as they come, holds back the first ones that carry nothing
 * and the terminal one, and gathers usage in passing (decisions §6). It reads as fast as the backend sends. A life sign is a
 * whole event: a backend that trickles pieces of one is silent.
 */
import type { Clock } from "../../actors/kernel/clock.ts"
import { Failure } from "../failure/failure.ts"
import type { AnswerBounds } from "../upstream/answer-bounds.ts"
import { brokenFault, connectionFault, type Fault, overlongFault } from "../upstream/client.ts"
import type { StreamPosition, StreamReader } from "../wire/format.ts"
import { type SseEvent, SseParser } from "../wire/sse.ts"

/** The most that is held back, in UTF-16 units: twice a coding agent's instructions and tools, which events may echo. */
const HELD_LENGTH = 131_072
/** How long a backend may take to close a stream after its last event, for the connection to be used again. */
const CLOSE_MS = 1_000

/** The stream came to its terminal event, whose bytes leave once the charge is durable. */
export interface StreamComplete {
  readonly terminal: string
}

/** What a relay tells its call. */
export interface Relayed {
  /** Text for the client. */
  write(text: string): void
  /** The backend sent an event. */
  heard(): void
  /** Something of this stream is about to be written. */
  committed(): void
}

export class Relay {
  readonly #reader: StreamReader
  readonly #bounds: AnswerBounds
  readonly #call: Relayed
  readonly #onContent: () => void
  #held = ""
  #committed = false
  #usable = false

  /** `onContent` is run at the first usable output. */
  constructor(reader: StreamReader, bounds: AnswerBounds, call: Relayed, onContent: () => void) {
    this.#reader = reader
    this.#bounds = bounds
    this.#call = call
    this.#onContent = onContent
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
    const reader = body.getReader()
    const parser = new SseParser({ maxEventSize: this.#bounds.eventLength })
    let size = 0
    try {
      for (;;) {
        const { done, value } = await reader.read()
        size += value?.length ?? 0
        if (size > this.#bounds.streamBytes) return overlongFault
        const events = done ? tail(parser) : parser.push(value)
        if (events instanceof Failure) return overlongFault
        if (events.length > 0) this.#call.heard()
        const end = this.#relay(events)
        if (end !== undefined) return end
        if (done) return connectionFault(true)
      }
    } catch {
      return connectionFault(true)
    } finally {
      // What is still held belongs to an answer that came to nothing; a heartbeat must not send it any more.
      this.#held = ""
      void finish(reader, clock)
    }
  }

  #relay(events: readonly SseEvent[]): StreamComplete | Fault | undefined {
    let out = ""
    for (const event of events) {
      const step = this.#reader.read(event)
      switch (step.kind) {
        case "preamble":
          if (!this.#committed) this.#held += step.bytes
          else out += step.bytes
          if (this.#held.length > HELD_LENGTH) out += this.#takeHeld()
          break
        case "content":
          if (!this.#usable) this.#onContent()
          this.#usable = true
          out += this.#takeHeld() + step.bytes
          break
        case "trailer":
          out += step.bytes
          break
        case "terminal": {
          const terminal = this.#takeHeld() + step.bytes
          this.#call.write(out)
          return { terminal }
        }
        case "failure":
          this.#call.write(out)
          return brokenFault(step.failure)
      }
    }
    this.#call.write(out)
    return undefined
  }
}

function tail(parser: SseParser): SseEvent[] | Failure {
  const last = parser.end()
  if (last instanceof Failure) return last
  return last === undefined ? [] : [last]
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
