/**
 * One client's answer as it goes out: bytes in order, back-pressure, heartbeats in silence, and what happens when the
 * client leaves (decisions §6). Whoever writes waits while more than `ROOM_BYTES` are unread, and that wait is what
 * reaches the backend as back-pressure. Sizes in bytes, times in milliseconds.
 */
import type { Clock, Timer } from "../../actors/kernel/clock.ts"

const ROOM_BYTES = 65_536

export interface OutboxOptions {
  readonly clock: Clock
  /** Sent after so long a silence; undefined sends none. */
  readonly heartbeat: string | undefined
  readonly heartbeatMs: number
  /** A client that takes nothing for so long is as good as gone. */
  readonly stallMs: number
  /** Run when a heartbeat is due: a chance to write something better. */
  readonly beforeHeartbeat: () => void
}

const encoder = new TextEncoder()

export class Outbox {
  /** Settles when there is a first byte to send: the moment at which the response's head may go. */
  readonly started: Promise<void>
  readonly #options: OutboxOptions
  readonly #leave = new AbortController()
  readonly #start: () => void
  #queue: Uint8Array[] = []
  #unread = 0
  #isStarted = false
  #ended = false
  #lastWriteAt = 0
  #timer: Timer | undefined
  #reader: (() => void) | undefined
  #room: PromiseWithResolvers<void> | undefined
  #stall: Timer | undefined
  #hurried = false

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

  /** From now on silence counts. */
  watchSilence(): void {
    this.#lastWriteAt = this.#options.clock.monotonic()
    if (this.#options.heartbeat !== undefined) this.#watch(this.#options.heartbeatMs)
  }

  /** Resolves when there is room for more; at once when the client has left, for whom nothing is kept. */
  write(text: string): Promise<void> {
    if (text === "" || this.left.aborted || this.#ended) return Promise.resolve()
    this.#put(text)
    if (this.#unread <= ROOM_BYTES || this.#hurried) return Promise.resolve()
    this.#room ??= Promise.withResolvers<void>()
    this.#stall ??= this.#options.clock.after(this.#options.stallMs, () => this.leave())
    return this.#room.promise
  }

  /** Nobody who writes waits for the client any more: what is left to say is little, and has to be said now. */
  hurry(): void {
    this.#hurried = true
    this.#makeRoom()
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
    this.#queue = []
    this.#unread = 0
    this.#leave.abort()
    this.#makeRoom()
    this.#reader?.()
  }

  readonly stream = (): ReadableStream<Uint8Array> =>
    new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          if (this.#queue.length === 0 && !this.#ended) await this.#more()
          if (this.left.aborted) return controller.error(new Error("the client took nothing for too long"))
          for (const bytes of this.#take()) controller.enqueue(bytes)
          if (this.#ended && this.#queue.length === 0) controller.close()
        },
        cancel: () => this.leave(),
      },
      { highWaterMark: 0 },
    )

  #more(): Promise<void> {
    return new Promise((resolve) => {
      this.#reader = () => {
        this.#reader = undefined
        resolve()
      }
    })
  }

  #take(): Uint8Array[] {
    const taken = this.#queue
    this.#queue = []
    this.#unread = 0
    this.#makeRoom()
    return taken
  }

  #makeRoom(): void {
    this.#stall?.cancel()
    this.#stall = undefined
    this.#room?.resolve()
    this.#room = undefined
  }

  #put(text: string): void {
    const bytes = encoder.encode(text)
    this.#queue.push(bytes)
    this.#unread += bytes.length
    this.#lastWriteAt = this.#options.clock.monotonic()
    if (!this.#isStarted) {
      this.#isStarted = true
      this.#start()
    }
    this.#reader?.()
  }

  /** One timer for a stream's life: it looks whether there has been silence, and sleeps for what is left of it. */
  #watch(delayMs: number): void {
    const { clock, heartbeatMs } = this.#options
    this.#timer = clock.after(delayMs, () => {
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
    else if (this.#options.heartbeat !== undefined) this.#put(this.#options.heartbeat)
  }
}
