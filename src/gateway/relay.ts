/**
 * Relays one backend's stream to one client: hands events on as they come, holds back the first ones that carry nothing
 * and the terminal one, and gathers usage in passing (decisions §6). It reads no further than the client does.
 */
import { Failure } from "../failure/failure.ts"
import { SseParser, type SseEvent } from "../wire/sse.ts"
import type { StreamReader } from "../wire/format.ts"
import { connectionFault, type Fault } from "../upstream/client.ts"
import type { Outbox } from "./outbox.ts"
import type { ByteSource } from "./patience.ts"

/** The stream came to its terminal event, whose bytes leave once the charge is durable. */
export interface StreamComplete {
  readonly terminal: string
}

export class Relay {
  readonly #reader: StreamReader
  readonly #outbox: Outbox
  readonly #onContent: () => void
  #held = ""
  #told = false
  #usable = false

  /** `onContent` is run at the first usable output. */
  constructor(reader: StreamReader, outbox: Outbox, onContent: () => void) {
    this.#reader = reader
    this.#outbox = outbox
    this.#onContent = onContent
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
    void this.#outbox.write(this.#held)
    this.#held = ""
    this.#told = true
  }

  async run(source: ByteSource): Promise<StreamComplete | Fault> {
    const parser = new SseParser()
    try {
      for (;;) {
        const { done, value } = await source.read()
        const events = done ? tail(parser) : parser.push(value)
        if (events instanceof Failure) return broken(events)
        const end = await this.#take(events)
        if (end !== undefined) return end
        if (done) return connectionFault(true)
      }
    } catch {
      return connectionFault(true)
    } finally {
      void finish(source)
    }
  }

  async #take(events: readonly SseEvent[]): Promise<StreamComplete | Fault | undefined> {
    let out = ""
    for (const event of events) {
      const step = this.#reader.read(event)
      switch (step.kind) {
        case "preamble":
          if (this.#told) out += step.bytes
          else this.#held += step.bytes
          break
        case "content":
          if (!this.#usable) this.#onContent()
          this.#usable = true
          this.#told = true
          out += this.#held + step.bytes
          this.#held = ""
          break
        case "trailer":
          out += step.bytes
          break
        case "terminal": {
          const terminal = this.#held + step.bytes
          this.#held = ""
          await this.#outbox.write(out)
          return { terminal }
        }
        case "failure":
          await this.#outbox.write(out)
          return broken(step.failure)
      }
    }
    await this.#outbox.write(out)
    return undefined
  }
}

/** A failure inside a 2xx stream; only one that may pass is worth another try. */
const broken = (failure: Failure): Fault => ({
  failure,
  retryAfterMs: failure.code === "dependency.upstream_unavailable" ? 0 : undefined,
  opened: true,
  alert: false,
})

function tail(parser: SseParser): SseEvent[] | Failure {
  const last = parser.end()
  if (last instanceof Failure) return last
  return last === undefined ? [] : [last]
}

/** How long a backend may take to close a stream after its last event, for the connection to be used again. */
const CLOSE_MS = 1_000

/** Always read or cancel: a body that is left alone keeps its connection. */
async function finish(source: ByteSource): Promise<void> {
  const timer = setTimeout(() => void source.cancel().catch(() => {}), CLOSE_MS)
  try {
    while (!(await source.read()).done);
  } catch {
    // The connection broke; there is nothing left to give back.
  } finally {
    clearTimeout(timer)
  }
}
