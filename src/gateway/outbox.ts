/**
 * One client's answer as it goes out: bytes in order, heartbeats in silence, and what happens when the client leaves
 * (decisions §6). Nobody who writes waits: what the client does not take is kept, until it has taken nothing for too long or
 * the process keeps too much. Sizes in bytes, times in milliseconds.
 */
import type { Clock, Timer } from "../../actors/kernel/clock.ts"
import type { Unread, UnreadBytes } from "./unread.ts"

/** The most that is handed over at once, and then lies in the connection's own buffers. */
const PIECE_BYTES = 65_536
/** What a piece that is kept takes beside its bytes. */
const KEEPING_BYTES = 128

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
  /** Sent after so long a silence; undefined sends none. */
  readonly heartbeat: string | undefined
  readonly heartbeatMs: number
  /** A client that takes nothing for so long is as good as gone. */
  readonly stallMs: number
  readonly unread: UnreadBytes
  /** Run when a heartbeat is due: a chance to write something better. */
  readonly beforeHeartbeat: () => void
  readonly connection?: StreamConnection | undefined
}

const encoder = new TextEncoder()

export class Outbox implements Unread {
  /** Settles when there is a first byte to send: the moment at which the response's head may go. */
  readonly started: Promise<void>
  readonly #options: OutboxOptions
  readonly #leave = new AbortController()
  readonly #start: () => void
  #pieces: Uint8Array[] = []
  /** Of the pieces, those before this one have been taken. */
  #taken = 0
  #unread = 0
  #isStarted = false
  #ended = false
  #lastWriteAt = 0
  #lastTakenAt = 0
  #timer: Timer | undefined
  #stall: Timer | undefined
  #reader: (() => void) | undefined
  #connection: StreamEnd | undefined

  constructor(options: OutboxOptions) {
    this.#options = options
    const { promise, resolve } = Promise.withResolvers<void>()
    this.started = promise
    this.#start = resolve
  }

  get isStarted(): boolean {
    return this.#isStarted
  }
  /** Aborts when the client goes away. */
  get left(): AbortSignal {
    return this.#leave.signal
  }
  get unread(): number {
    return this.#unread
  }

  /** From now on silence counts. */
  watchSilence(): void {
    this.#lastWriteAt = this.#options.clock.monotonic()
    if (this.#options.heartbeat !== undefined) this.#watch(this.#options.heartbeatMs)
  }

  /** Nothing is kept for a client that has left. */
  write(text: string): void {
    if (text === "" || this.left.aborted || this.#ended) return
    const bytes = encoder.encode(text)
    const { clock, stallMs, unread } = this.#options
    this.#lastWriteAt = clock.monotonic()
    if (this.#unread === 0) {
      this.#lastTakenAt = clock.running()
      this.#stall ??= clock.after(stallMs, () => this.#lookAtReader())
    }
    this.#pieces.push(bytes)
    this.#unread += bytes.length + KEEPING_BYTES
    unread.add(this, bytes.length + KEEPING_BYTES)
    if (!this.#isStarted) {
      this.#isStarted = true
      this.#start()
    }
    this.#reader?.()
  }

  end(): void {
    if (this.#ended) return
    this.#ended = true
    this.#timer?.cancel()
    this.#reader?.()
  }

  /** The client is gone. */
  leave(): void {
    if (this.left.aborted) return
    this.#timer?.cancel()
    this.#stall?.cancel()
    this.#pieces = []
    this.#taken = 0
    this.#isTaken(this.#unread)
    this.#leave.abort()
    this.#connection?.abandon()
    this.#reader?.()
  }

  cut(): void {
    this.leave()
  }

  readonly stream = (): ReadableStream<Uint8Array> => {
    this.#connection = this.#options.connection?.takeEnd()
    if (this.left.aborted) this.#connection?.abandon()
    return new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          if (this.#unread === 0 && !this.#ended) await this.#more()
          if (this.left.aborted) return controller.error(new Error("the client took nothing for too long"))
          this.#take(controller)
          if (!this.#ended || this.#unread > 0) return
          this.#connection?.ends()
          controller.close()
        },
        cancel: () => this.leave(),
      },
      { highWaterMark: 0 },
    )
  }

  #more(): Promise<void> {
    return new Promise((resolve) => {
      this.#reader = () => {
        this.#reader = undefined
        resolve()
      }
    })
  }

  #take(controller: ReadableStreamDefaultController<Uint8Array>): void {
    let bytes = 0
    let taken = 0
    while (bytes < PIECE_BYTES) {
      const piece = this.#pieces[this.#taken]
      if (piece === undefined) break
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
    if (taken > 0) this.#lastTakenAt = this.#options.clock.running()
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
  #lookAtReader(): void {
    const { clock, stallMs } = this.#options
    const leftMs = this.#lastTakenAt + stallMs - clock.running()
    if (leftMs <= 1) return this.leave()
    this.#stall = clock.after(leftMs, () => this.#lookAtReader())
  }

  /** One timer for a stream's life: it looks whether there has been silence, and sleeps for what is left of it. */
  #watch(delayMs: number): void {
    const { clock, heartbeatMs } = this.#options
    this.#timer = clock.wait(delayMs, () => {
      const silentMs = clock.monotonic() - this.#lastWriteAt
      if (silentMs + 1 >= heartbeatMs) this.#beat()
      const again = heartbeatMs - (clock.monotonic() - this.#lastWriteAt)
      if (!this.#ended && !this.left.aborted) this.#watch(Math.max(1, again))
    })
  }

  #beat(): void {
    this.#options.beforeHeartbeat()
    // A client that does not read needs no sign of life, and must not be sent an unbounded number of them.
    if (this.#unread > 0) this.#lastWriteAt = this.#options.clock.monotonic()
    else if (this.#options.heartbeat !== undefined) this.write(this.#options.heartbeat)
  }
}
