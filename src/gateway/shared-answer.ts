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
/** So many texts are kept as they came; then they become a piece of bytes, whose size is known. */
const MOST_TEXTS = 64

export class SharedAnswer implements ClientOutbox {
  readonly #options: SharedAnswerOptions
  readonly #readers = new Set<Outbox>()
  /** Until it has all, or is gone. */
  #first: Outbox | undefined
  /** Who came last: one who asks again has given up on those before. */
  #latest: Outbox
  readonly #silence: Silence
  #hearing: Hearing | undefined
  /** No larger than are handed over at once. */
  #pieces: Uint8Array<ArrayBuffer>[] = []
  /** What came after the pieces, as it was written: most answers come through, and are never read a second time. */
  #texts: string[] = []
  /** Of the texts. */
  #textBytes = 0
  /** Held for what is still text. */
  #room = 0
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
    this.#seal()
    reader.catchUp(this.#pieces)
    if (this.#ended) reader.end()
    return reader
  }

  /** All of it for this reader, where it has come to its end and is small. */
  inOnePiece(reader: Outbox): Uint8Array<ArrayBuffer> | undefined {
    this.#seal()
    const whole = this.#ended && this.#pieces.length === 1 ? this.#pieces[0] : undefined
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
    this.#settle()
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
    if (this.#pieces.length === 0 && this.#textBytes === 0) {
      if (!isDelivered) this.#keep(text)
      this.#close()
    }
    if (first !== undefined) this.#taken(first)
  }

  /** It is kept no more, and nobody can join: whoever reads it has what was written, and goes on. */
  lose(): void {
    this.#isLost = true
    this.#pieces = []
    this.#texts = []
    this.#textBytes = 0
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
    if (reader === this.#latest) this.#options.delivered?.()
    this.#gone(reader)
  }

  #gone(reader: Outbox): void {
    this.#readers.delete(reader)
    if (reader === this.#first) this.#first = undefined
    this.#settle()
  }

  #keep(text: string): void {
    if (this.#isLost) return
    if (this.#room === 0) {
      if (!this.#hold(PIECE_BYTES)) return this.lose()
      this.#room = PIECE_BYTES
    }
    this.#texts.push(text)
    this.#textBytes += Buffer.byteLength(text)
    if (this.#textBytes >= PIECE_BYTES || this.#texts.length >= MOST_TEXTS) this.#seal()
  }

  /** What is still text becomes bytes. */
  #seal(): void {
    const room = this.#ended ? this.#room : 0
    if (this.#isLost || (this.#textBytes === 0 && room === 0)) return
    if (!this.#hold(this.#textBytes - room)) return this.lose()
    this.#room -= room
    const bytes = encoder.encode(this.#texts.join(""))
    this.#texts = []
    this.#textBytes = 0
    for (let at = 0; at < bytes.length; at += PIECE_BYTES) this.#pieces.push(bytes.subarray(at, at + PIECE_BYTES))
  }

  /** Once it has ended and nobody reads it, what is kept is what stays, and as small as can be. */
  #settle(): void {
    if (this.#ended && this.#readers.size === 0) this.#seal()
  }

  #close(): void {
    this.#ended = true
    this.#silence.end()
    // The call is over, and what it holds is not to be kept along.
    this.#hearing = undefined
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
