/**
 * Relays one backend's stream to one client: hands events on as they come, holds back the first ones that carry nothing
 * and the terminal one, and gathers usage in passing (decisions §6). It reads as fast as the backend sends. A life sign is a
 * whole event: a backend that trickles pieces of one is silent.
 */
import { Failure } from "../failure/failure.ts"
import { SseParser, type SseEvent } from "../wire/sse.ts"
import type { StreamReader } from "../wire/format.ts"
import type { AnswerBounds } from "../upstream/answer-bounds.ts"
import { brokenFault, connectionFault, type Fault, overlongFault } from "../upstream/client.ts"
import type { Outbox } from "./outbox.ts"
import type { ByteSource } from "./patience.ts"

/** The most that is held back, in UTF-16 units: twice a coding agent's instructions and tools, which events may echo. */
const HELD_LENGTH = 131_072

/** The stream came to its terminal event, whose bytes leave once the charge is durable. */
export interface StreamComplete {
  readonly terminal: string
}

export interface RelayTerms {
  readonly reader: StreamReader
  readonly outbox: Outbox
  readonly bounds: AnswerBounds
  /** Run at each event of the backend's. */
  readonly onEvent: () => void
  /** Run at the first usable output. */
  readonly onContent: () => void
}

export class Relay {
  readonly #terms: RelayTerms
  readonly #outbox: Outbox
  #held = ""
  #told = false
  #usable = false

  constructor(terms: RelayTerms) {
    this.#terms = terms
    this.#outbox = terms.outbox
  }

  /** The client has been sent something of this backend's stream, which therefore cannot be begun again unseen. */
  get told(): boolean {
    return this.#told
  }
  get usable(): boolean {
    return this.#usable
  }

  /** Lets go of what is held back, because the client has waited for so long that it must hear something. */
  release(): void {
    if (this.#held === "") return
    this.#outbox.write(this.#letGo())
  }

  /** What was held back, to be sent now. */
  #letGo(): string {
    const held = this.#held
    this.#held = ""
    this.#told = true
    return held
  }

  async run(source: ByteSource): Promise<StreamComplete | Fault> {
    const { bounds, onEvent } = this.#terms
    const parser = new SseParser({ maxEventSize: bounds.eventLength })
    let size = 0
    try {
      for (;;) {
        const { done, value } = await source.read()
        size += value?.length ?? 0
        if (size > bounds.streamBytes) return overlongFault
        const events = done ? tail(parser) : parser.push(value)
        if (events instanceof Failure) return overlongFault
        if (events.length > 0) onEvent()
        const end = this.#take(events)
        if (end !== undefined) return end
        if (done) return connectionFault(true)
      }
    } catch {
      return connectionFault(true)
    } finally {
      // What is still held belongs to an answer that came to nothing; a heartbeat must not send it any more.
      this.#held = ""
      source.close()
    }
  }

  #take(events: readonly SseEvent[]): StreamComplete | Fault | undefined {
    let out = ""
    for (const event of events) {
      const step = this.#terms.reader.read(event)
      switch (step.kind) {
        case "preamble":
          if (!this.#told) this.#held += step.bytes
          else out += step.bytes
          if (this.#held.length > HELD_LENGTH) out += this.#letGo()
          break
        case "content":
          if (!this.#usable) this.#terms.onContent()
          this.#usable = true
          out += this.#letGo() + step.bytes
          break
        case "trailer":
          out += step.bytes
          break
        case "terminal": {
          const terminal = this.#letGo() + step.bytes
          this.#outbox.write(out)
          return { terminal }
        }
        case "failure":
          this.#outbox.write(out)
          return brokenFault(step.failure)
      }
    }
    this.#outbox.write(out)
    return undefined
  }
}

function tail(parser: SseParser): SseEvent[] | Failure {
  const last = parser.end()
  if (last instanceof Failure) return last
  return last === undefined ? [] : [last]
}
