/**
 * The answer of a call that may be asked for again: it is kept as it is written, and given to its client and to each repeat from
 * its first byte. The call has a client as long as any of them is there. Sizes in bytes.
 */
import { type ClientOutbox, Outbox, type OutboxOptions, PIECE_BYTES, type StreamConnection } from "./outbox.ts"
import { Silence } from "./silence.ts"

/** At one time, the first client among them. */
const MOST_READERS = 4

export interface SharedAnswerOptions extends Pick<OutboxOptions, "clock" | "heartbeatMs" | "stallMs" | "unread"> {
  /** So many bytes more are kept, or fewer; false where there is no room. */
  readonly hold: (bytes: number) => boolean
  /** Run when whoever came last has all of it. */
  readonly delivered?: () => void
}

/** What a call hears of its clients. */
type Hearing = Pick<OutboxOptions, "onSilence" | "onLeave">

const encoder = new TextEncoder()
/** In UTF-8. */
const LONGEST_CHARACTER = 4

export class SharedAnswer implements ClientOutbox {
  readonly #options: SharedAnswerOptions
  readonly #readers = new Set<Outbox>()
  /** Until it has all, or is gone. */
  #first: Outbox | undefined
  /** Who came last: one who asks again has given up on those before. */
  #latest: Outbox
  readonly #silence: Silence
  #hearing: Hearing | undefined
  readonly #full: Uint8Array[] = []
  /** What is written to, up to here; what was written of it does not change. */
  #open: Uint8Array<ArrayBuffer> | undefined
  #used = 0
  #held = 0
  #hasBegun = false
  #ended = false
  #isLost = false

  /** `connection`: the first client's. */
  constructor(options: SharedAnswerOptions, connection: StreamConnection | undefined) {
    this.#options = options
    const { clock, heartbeatMs } = options
    this.#silence = new Silence({ clock, heartbeatMs, onSilence: () => this.#hearing?.onSilence() })
    this.#latest = this.#first = this.#reader(connection)
  }

  /** From now on a call writes it. */
  begin(hearing: Hearing): this {
    this.#hearing = hearing
    return this
  }

  get hasBegun(): boolean {
    return this.#hasBegun
  }
  get hasLeft(): boolean {
    return this.#readers.size === 0
  }
  /** It went to the first client in one piece, or has come to the end of its stream. */
  get hasEnded(): boolean {
    return this.#ended
  }
  /** It is not kept, and so cannot be asked for again. */
  get isLost(): boolean {
    return this.#isLost
  }
  /** There is room for one more reader, and all there was to read. */
  get takesReaders(): boolean {
    return this.#readers.size < MOST_READERS && !this.#isLost
  }

  /** One more reader, who gets all from the first byte. */
  join(connection: StreamConnection | undefined): Outbox {
    const reader = (this.#latest = this.#reader(connection))
    reader.catchUp(this.#open === undefined ? this.#full : [...this.#full, this.#open.subarray(0, this.#used)])
    if (this.#ended) reader.end()
    return reader
  }

  /** All of it for this reader, where it has come to its end and is small. */
  inOnePiece(reader: Outbox): Uint8Array<ArrayBuffer> | undefined {
    const whole = this.#ended && this.#full.length === 0 ? this.#open?.slice() : undefined
    if (whole === undefined) return undefined
    reader.leave()
    this.#taken(reader)
    return whole
  }

  watchSilence(): void {
    this.#silence.watch()
  }

  write(text: string): void {
    if (text === "" || this.#ended) return
    this.#silence.broken()
    this.#hasBegun = true
    this.#keep(text)
    for (const reader of this.#readers) reader.write(text)
  }

  /** A sign of life is for whoever waits, and no part of the answer. */
  beat(text: string): void {
    this.#silence.broken()
    this.#hasBegun = true
    for (const reader of this.#readers) reader.beat(text)
  }

  end(): void {
    if (this.#ended) return
    this.#close()
    for (const reader of this.#readers) reader.end()
  }

  /** The first client is gone. */
  leave(): void {
    this.#first?.leave()
  }

  whole(): string | undefined {
    const whole = this.#first?.whole()
    if (whole !== undefined && this.#first !== undefined) this.#taken(this.#first)
    return whole
  }

  /** The head is said to all of them, also where the first client has not waited for it. */
  stream(): ReadableStream<Uint8Array> {
    return this.#first?.stream() ?? new ReadableStream({ pull: (controller) => controller.error(new Error("it left")) })
  }

  /** It went to the first client in one piece, and was not written. */
  wasWhole(text: string): void {
    const first = this.#first
    const isDelivered = first === this.#latest && this.#options.delivered !== undefined
    if (this.#full.length === 0 && this.#used === 0) {
      if (!isDelivered) this.#keep(text)
      this.#close()
    }
    if (first !== undefined) this.#taken(first)
  }

  /** It is kept no more, and nobody can join: whoever reads it has what was written, and goes on. */
  lose(): void {
    this.#isLost = true
    this.#full.length = 0
    this.#open = undefined
    this.#used = 0
    this.#hold(-this.#held)
  }

  #reader(connection: StreamConnection | undefined): Outbox {
    const { clock, heartbeatMs, stallMs, unread } = this.#options
    const reader: Outbox = new Outbox({
      clock,
      heartbeatMs,
      stallMs,
      unread,
      connection,
      onSilence: () => {},
      onLeave: () => {
        this.#gone(reader)
        if (this.#readers.size === 0) this.#hearing?.onLeave()
      },
      onTaken: () => this.#taken(reader),
    })
    this.#readers.add(reader)
    return reader
  }

  #taken(reader: Outbox): void {
    this.#gone(reader)
    if (reader === this.#latest) this.#options.delivered?.()
  }

  #gone(reader: Outbox): void {
    this.#readers.delete(reader)
    if (reader === this.#first) this.#first = undefined
  }

  #keep(text: string): void {
    let left = text
    while (left !== "" && !this.#isLost) {
      if (this.#open === undefined || PIECE_BYTES - this.#used < LONGEST_CHARACTER) {
        if (!this.#hold(PIECE_BYTES)) return this.lose()
        if (this.#open !== undefined) this.#full.push(this.#open.subarray(0, this.#used))
        this.#open = new Uint8Array(PIECE_BYTES)
        this.#used = 0
      }
      const { read, written } = encoder.encodeInto(left, this.#open.subarray(this.#used))
      this.#used += written
      left = left.slice(read)
    }
  }

  /** The last piece is as long as what is in it. */
  #close(): void {
    this.#ended = true
    this.#silence.end()
    // The call is over, and what it holds is not to be kept along.
    this.#hearing = undefined
    if (this.#open === undefined) return
    this.#open = this.#open.slice(0, this.#used)
    this.#hold(this.#used - PIECE_BYTES)
  }

  #hold(bytes: number): boolean {
    if (bytes === 0) return true
    if (!this.#options.hold(bytes)) return false
    this.#held += bytes
    // Room may have been made by losing this very answer.
    if (bytes > 0 && this.#isLost) return !this.#hold(-bytes)
    return true
  }
}
