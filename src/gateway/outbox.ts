/**
 * One client's answer as it goes out: bytes in order, back-pressure, heartbeats in silence, and what happens when the
 * client leaves (decisions §6). Whoever writes waits while more than `ROOM_BYTES` are unread, and that wait is what
 * reaches the backend as back-pressure. Sizes in bytes, times in milliseconds.
 */
const ROOM_BYTES = 65_536

export interface OutboxOptions {
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
  #timer: ReturnType<typeof setTimeout> | undefined
  #reader: (() => void) | undefined
  #room: PromiseWithResolvers<void> | undefined
  #stall: ReturnType<typeof setTimeout> | undefined
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
    this.#lastWriteAt = performance.now()
    if (this.#options.heartbeat !== undefined) this.#watch(this.#options.heartbeatMs)
  }

  /** Resolves when there is room for more; at once when the client has left, for whom nothing is kept. */
  write(text: string): Promise<void> {
    if (text === "" || this.left.aborted || this.#ended) return Promise.resolve()
    this.#put(text)
    if (this.#unread <= ROOM_BYTES || this.#hurried) return Promise.resolve()
    this.#room ??= Promise.withResolvers<void>()
    this.#stall ??= setTimeout(() => this.leave(), this.#options.stallMs)
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
    clearTimeout(this.#timer)
    this.#reader?.()
  }

  /** The client is gone. */
  leave(): void {
    if (this.left.aborted) return
    clearTimeout(this.#timer)
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
    clearTimeout(this.#stall)
    this.#stall = undefined
    this.#room?.resolve()
    this.#room = undefined
  }

  #put(text: string): void {
    const bytes = encoder.encode(text)
    this.#queue.push(bytes)
    this.#unread += bytes.length
    this.#lastWriteAt = performance.now()
    if (!this.#isStarted) {
      this.#isStarted = true
      this.#start()
    }
    this.#reader?.()
  }

  /** One timer for a stream's life: it looks whether there has been silence, and sleeps for what is left of it. */
  #watch(delayMs: number): void {
    this.#timer = setTimeout(() => {
      const silentMs = performance.now() - this.#lastWriteAt
      if (silentMs + 1 >= this.#options.heartbeatMs) this.#beat()
      const again = this.#options.heartbeatMs - (performance.now() - this.#lastWriteAt)
      if (!this.#ended && !this.left.aborted) this.#watch(Math.max(1, again))
    }, delayMs)
  }

  #beat(): void {
    this.#options.beforeHeartbeat()
    // A client that does not read needs no sign of life, and must not be sent an unbounded number of them.
    if (this.#unread > 0) this.#lastWriteAt = performance.now()
    else if (this.#options.heartbeat !== undefined) this.#put(this.#options.heartbeat)
  }
}
