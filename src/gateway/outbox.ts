/**
 * One client's answer as it goes out: bytes in order, heartbeats in silence, and what happens when the client leaves
 * (decisions §6). Nobody who writes waits: what the client does not take is kept, until it has taken nothing for too long or
 * the process keeps too much. Sizes in bytes, times in milliseconds.
 */
import type { Clock, Timer } from "../../actors/kernel/clock.ts"
import { DenseSet, type Placed } from "../../actors/kernel/dense-set.ts"
import { Silence } from "./silence.ts"

/**
 * The most that is handed over at once, and then lies in the connection's own buffers. Bun gathers up to 16 KiB of a
 * connection, the head too, and what is more in one piece costs as much as a whole call (docs/performance.md).
 */
export const PIECE_BYTES = 13_312
/** What a piece that is kept takes beside its bytes. */
const KEEPING_BYTES = 128

/** What goes to the client: all of it, or a stream of what comes. */
export interface Answer {
  readonly body: string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>
  readonly headers: Readonly<Record<string, string>>
}

/** The client's connection, which an answer that streams keeps from counting as idle. */
export interface StreamConnection {
  takeEnd(): StreamEnd
}

export interface StreamEnd {
  /** To be called right before the stream's end. */
  ends(): void
  /** The client counts as gone, and is not waited for any more. */
  abandon(): void
}

export interface OutboxOptions {
  readonly clock: Clock
  readonly heartbeatMs: number
  /** A client that takes nothing for so long is as good as gone. */
  readonly stallMs: number
  readonly unread: UnreadBytes
  readonly connection?: StreamConnection | undefined
  /** Run when nothing has been written for so long, while silence is watched. */
  readonly onSilence: () => void
  /** Run when the client goes away. */
  readonly onLeave: () => void
  /** Run when the client has taken all there is, and nothing more comes. */
  readonly onTaken?: () => void
}

const encoder = new TextEncoder()

/** What a call writes its answer to. */
export type ClientOutbox = Pick<
  Outbox,
  "hasBegun" | "hasLeft" | "watchSilence" | "write" | "beat" | "end" | "leave" | "whole" | "stream"
>

export class Outbox implements Placed {
  place: number | undefined
  readonly #options: OutboxOptions
  #pieces: (string | Uint8Array)[] = []
  /** Of the pieces, those before this one have been taken. */
  #taken = 0
  #unread = 0
  #hasBegun = false
  #hasLeft = false
  #ended = false
  /** The client has the head, and can take what there is. */
  #isTaking = false
  #lastTakenAt = 0
  readonly #silence: Silence
  #stall: Timer | undefined
  /** Set while the client asks for more than there is. */
  #asking: ReadableStreamDefaultController<Uint8Array> | undefined
  #connection: StreamEnd | undefined

  constructor(options: OutboxOptions) {
    this.#options = options
    this.#silence = new Silence(options)
  }

  /** There is, or was, something to send. */
  get hasBegun(): boolean {
    return this.#hasBegun
  }
  get hasLeft(): boolean {
    return this.#hasLeft
  }
  get unread(): number {
    return this.#unread
  }

  /** From now on silence counts. */
  watchSilence(): void {
    this.#silence.watch()
  }

  /** Nothing is kept for a client that has left. */
  write(text: string): void {
    if (text === "" || this.#hasLeft || this.#ended) return
    this.#silence.broken()
    this.#hasBegun = true
    const size = Buffer.byteLength(text)
    const asking = this.#asking
    this.#asking = undefined
    if (asking !== undefined && size <= PIECE_BYTES) return asking.enqueue(encoder.encode(text))
    const pieces = size <= PIECE_BYTES ? [text] : cut(encoder.encode(text))
    this.#pieces.push(...pieces)
    this.#keep(size + pieces.length * KEEPING_BYTES)
    if (asking !== undefined) this.#pull(asking)
  }

  /** What was written elsewhere, in pieces no larger than are handed over at once. They are not changed any more. */
  catchUp(pieces: readonly Uint8Array[]): void {
    if (pieces.length === 0 || this.#hasLeft || this.#ended) return
    this.#hasBegun = true
    this.#pieces.push(...pieces)
    let kept = 0
    for (const { length } of pieces) kept += length + KEEPING_BYTES
    const asking = this.#asking
    this.#asking = undefined
    this.#keep(kept)
    if (asking !== undefined) this.#pull(asking)
  }

  #keep(bytes: number): void {
    this.#unread += bytes
    this.#options.unread.add(this, bytes)
    if (this.#isTaking) this.#watchReader()
  }

  /** A sign of life. A client that does not read needs none, and must not be sent an unbounded number of them. */
  beat(text: string): void {
    if (this.#unread > 0) this.#silence.broken()
    else this.write(text)
  }

  end(): void {
    if (this.#ended) return
    this.#ended = true
    this.#silence.end()
    if (this.#asking !== undefined) this.#close(this.#asking)
  }

  /** The client is gone. */
  leave(): void {
    if (this.#hasLeft) return
    this.#hasLeft = true
    this.#silence.end()
    this.#stall?.cancel()
    this.#pieces = []
    this.#taken = 0
    this.#isTaken(this.#unread)
    this.#connection?.abandon()
    this.#asking?.error(tookNothing())
    this.#asking = undefined
    this.#options.onLeave()
  }

  /** What is to be sent, in one piece, where it has come to its end and is small; undefined otherwise. */
  whole(): string | undefined {
    if (!this.#ended || this.#hasLeft || this.#unread > PIECE_BYTES) return undefined
    this.#options.connection?.takeEnd().ends()
    let text = ""
    for (const piece of this.#pieces) {
      if (typeof piece !== "string") throw new Error("what was cut is not small")
      text += piece
    }
    this.#pieces = []
    this.#isTaken(this.#unread)
    return text
  }

  /** What is to be sent, as it comes. */
  stream(): ReadableStream<Uint8Array> {
    this.#connection = this.#options.connection?.takeEnd()
    if (this.#hasLeft) this.#connection?.abandon()
    this.#isTaking = true
    if (this.#unread > 0) this.#watchReader()
    return new ReadableStream<Uint8Array>(
      { pull: (controller) => this.#pull(controller), cancel: () => this.leave() },
      { highWaterMark: 0 },
    )
  }

  /** Never a promise: where there is nothing yet, the next write hands it over. */
  #pull(controller: ReadableStreamDefaultController<Uint8Array>): void {
    if (this.#hasLeft) return controller.error(tookNothing())
    if (this.#unread > 0) this.#take(controller)
    else if (!this.#ended) this.#asking = controller
    if (this.#ended && this.#unread === 0) this.#close(controller)
  }

  #close(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.#asking = undefined
    this.#connection?.ends()
    controller.close()
    this.#options.onTaken?.()
  }

  #take(controller: ReadableStreamDefaultController<Uint8Array>): void {
    let bytes = 0
    let taken = 0
    while (bytes < PIECE_BYTES) {
      const next = this.#pieces[this.#taken]
      if (next === undefined) break
      const piece = typeof next === "string" ? encoder.encode(next) : next
      this.#taken++
      bytes += piece.length
      taken += piece.length + KEEPING_BYTES
      controller.enqueue(piece)
    }
    // A list that is walked, not shifted, and cut when half of it has been walked.
    if (2 * this.#taken >= this.#pieces.length) {
      this.#pieces = this.#pieces.slice(this.#taken)
      this.#taken = 0
    }
    this.#lastTakenAt = this.#options.clock.running()
    this.#isTaken(taken)
  }

  #isTaken(bytes: number): void {
    if (bytes === 0) return
    this.#unread -= bytes
    this.#options.unread.remove(this, bytes)
    if (this.#unread > 0) return
    this.#stall?.cancel()
    this.#stall = undefined
  }

  /** There is something that the client has not taken; it is gone when it has taken nothing for so long. */
  #watchReader(): void {
    if (this.#stall !== undefined || this.#hasLeft) return
    const { clock, stallMs } = this.#options
    this.#lastTakenAt = clock.running()
    this.#stall = clock.after(stallMs, () => this.#lookAtReader())
  }

  #lookAtReader(): void {
    const { clock, stallMs } = this.#options
    const leftMs = this.#lastTakenAt + stallMs - clock.running()
    if (leftMs <= 1) return this.leave()
    this.#stall = clock.after(leftMs, () => this.#lookAtReader())
  }
}

function cut(bytes: Uint8Array): Uint8Array[] {
  const pieces: Uint8Array[] = []
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) pieces.push(bytes.subarray(at, at + PIECE_BYTES))
  return pieces
}

const tookNothing = () => new Error("the client took nothing for too long")

/**
 * What clients have not taken yet, of all streams of this process, in bytes. A backend never waits for a client (decisions
 * §6), so what a slow one does not take is kept here, up to a share of memory; beyond it the stream with the most is cut, and
 * its client counts as gone.
 */
export class UnreadBytes {
  readonly #limit: number
  readonly #streams = new DenseSet<Outbox>()
  #total = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  get total(): number {
    return this.#total
  }

  /** So many more of this stream, which counts them already. */
  add(stream: Outbox, bytes: number): void {
    this.#streams.add(stream)
    this.#total += bytes
    while (this.#total > this.#limit) {
      let largest = stream
      for (const other of this.#streams.all()) if (other.unread > largest.unread) largest = other
      largest.leave()
    }
  }

  /** So many fewer of this stream, which counts them no more. */
  remove(stream: Outbox, bytes: number): void {
    this.#total -= bytes
    if (stream.unread === 0) this.#streams.delete(stream)
  }
}
