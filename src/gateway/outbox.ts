/**
 * The response to one client: bytes in order, heartbeats while nothing is written, and what happens when the client leaves
 * (decisions §6). The writer never waits. Unread bytes are buffered until the client has read nothing for too long or the process
 * buffers too much. Sizes in bytes, times in milliseconds.
 */
import type { Clock, Timer } from "../../actors/kernel/clock.ts"
import { DenseSet, type Placed } from "../../actors/kernel/dense-set.ts"
import { IdleTimer } from "./timeouts.ts"

/**
 * The most that is passed to the connection at once. Bun buffers up to 16 KiB of a connection, the head included, and a larger
 * chunk costs as much as a whole call (docs/performance/tried.md).
 */
export const CHUNK_BYTES = 13_312
/** Memory of a buffered chunk beside its bytes. */
const CHUNK_OVERHEAD_BYTES = 128

/** A response: the whole body, or a stream. */
export interface Answer {
  readonly body: string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>
  readonly headers: Readonly<Record<string, string>>
}

/** The client's connection. A streamed response keeps it from counting as idle. */
export interface StreamConnection {
  takeEnd(): StreamEnd
}

export interface StreamEnd {
  /** Called right before the stream's end. */
  ends(): void
  /** Closes the connection of a client that counts as gone. */
  abandon(): void
}

/** What the outboxes of a process share. */
export interface OutboxPorts {
  readonly clock: Clock
  readonly limits: {
    readonly heartbeatMs: number
    /** A client that reads nothing for this long counts as gone. */
    readonly readerStallMs: number
  }
  readonly unread: UnreadBytes
}

export interface OutboxListener {
  /** After each `heartbeatMs` without a write, once `watchIdle` was called. */
  onIdle?(): void
  /** The client leaves. */
  onLeave(outbox: Outbox): void
  /** The client has read the whole response. */
  onDelivered?(outbox: Outbox): void
}

const encoder = new TextEncoder()

/** What a call writes its response to. */
export type ClientOutbox = Pick<
  Outbox,
  "hasBegun" | "hasLeft" | "watchIdle" | "write" | "heartbeat" | "end" | "leave" | "takeWhole" | "stream"
>

export class Outbox implements Placed {
  place: number | undefined
  readonly #ports: OutboxPorts
  readonly #listener: OutboxListener
  #chunks: (string | Uint8Array)[] = []
  /** Index of the first unread chunk. */
  #nextChunk = 0
  #unread = 0
  #hasBegun = false
  #hasLeft = false
  #ended = false
  /** The client has the head and can read. */
  #isReading = false
  #lastReadAt = 0
  /** Undefined as long as nobody asked for heartbeats. */
  #idleTimer: IdleTimer | undefined
  #stallTimer: Timer | undefined
  /** Set while the client waits for more bytes. */
  #pendingPull: ReadableStreamDefaultController<Uint8Array> | undefined
  readonly #connection: StreamConnection | undefined
  #streamEnd: StreamEnd | undefined

  constructor(ports: OutboxPorts, listener: OutboxListener, connection?: StreamConnection) {
    this.#ports = ports
    this.#listener = listener
    this.#connection = connection
  }

  /** Something was written. */
  get hasBegun(): boolean {
    return this.#hasBegun
  }
  get hasLeft(): boolean {
    return this.#hasLeft
  }
  get unread(): number {
    return this.#unread
  }

  /** Starts the heartbeats. */
  watchIdle(): void {
    if (this.#hasLeft || this.#ended) return
    this.#idleTimer ??= new IdleTimer(this.#ports, () => this.#listener.onIdle?.())
    this.#idleTimer.start()
  }

  /** Does nothing for a client that has left. */
  write(text: string): void {
    if (text === "" || this.#hasLeft || this.#ended) return
    this.#idleTimer?.activity()
    this.#hasBegun = true
    const size = Buffer.byteLength(text)
    const asking = this.#pendingPull
    this.#pendingPull = undefined
    if (asking !== undefined && size <= CHUNK_BYTES) return asking.enqueue(encoder.encode(text))
    const pieces = size <= CHUNK_BYTES ? [text] : splitIntoChunks(encoder.encode(text))
    this.#chunks.push(...pieces)
    this.#addUnread(size + pieces.length * CHUNK_OVERHEAD_BYTES)
    if (asking !== undefined) this.#pull(asking)
  }

  /** Adds chunks that another object has encoded, each at most CHUNK_BYTES. The caller must not change them. */
  catchUp(pieces: readonly Uint8Array[]): void {
    if (pieces.length === 0 || this.#hasLeft || this.#ended) return
    this.#hasBegun = true
    this.#chunks.push(...pieces)
    let kept = 0
    for (const { length } of pieces) kept += length + CHUNK_OVERHEAD_BYTES
    const asking = this.#pendingPull
    this.#pendingPull = undefined
    this.#addUnread(kept)
    if (asking !== undefined) this.#pull(asking)
  }

  #addUnread(bytes: number): void {
    this.#unread += bytes
    this.#ports.unread.add(this, bytes)
    if (this.#isReading) this.#watchForStall()
  }

  /** Sends a heartbeat. A client with unread bytes gets none, or their number would be unbounded. */
  heartbeat(text: string): void {
    if (this.#unread > 0) this.#idleTimer?.activity()
    else this.write(text)
  }

  end(): void {
    if (this.#ended) return
    this.#ended = true
    this.#idleTimer?.end()
    if (this.#pendingPull !== undefined) this.#close(this.#pendingPull)
  }

  /** The client has left. */
  leave(): void {
    if (this.#hasLeft) return
    this.#hasLeft = true
    this.#idleTimer?.end()
    this.#stallTimer?.cancel()
    this.#chunks = []
    this.#nextChunk = 0
    this.#consumed(this.#unread)
    this.#streamEnd?.abandon()
    this.#pendingPull?.error(stalledError())
    this.#pendingPull = undefined
    this.#listener.onLeave(this)
  }

  /** The whole response, if it has ended and fits in one chunk; otherwise undefined. */
  takeWhole(): string | undefined {
    if (!this.#ended || this.#hasLeft || this.#unread > CHUNK_BYTES) return undefined
    this.#connection?.takeEnd().ends()
    let text = ""
    for (const piece of this.#chunks) {
      if (typeof piece !== "string") throw new Error("what was cut is not small")
      text += piece
    }
    this.#chunks = []
    this.#consumed(this.#unread)
    return text
  }

  /** The response as a stream. */
  stream(): ReadableStream<Uint8Array> {
    this.#streamEnd = this.#connection?.takeEnd()
    if (this.#hasLeft) this.#streamEnd?.abandon()
    this.#isReading = true
    if (this.#unread > 0) this.#watchForStall()
    return new ReadableStream<Uint8Array>(
      { pull: (controller) => this.#pull(controller), cancel: () => this.leave() },
      { highWaterMark: 0 },
    )
  }

  /** Returns no promise. Where nothing is buffered, the next write resumes this pull. */
  #pull(controller: ReadableStreamDefaultController<Uint8Array>): void {
    if (this.#hasLeft) return controller.error(stalledError())
    if (this.#unread > 0) this.#sendChunks(controller)
    else if (!this.#ended) this.#pendingPull = controller
    if (this.#ended && this.#unread === 0) this.#close(controller)
  }

  #close(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.#pendingPull = undefined
    this.#streamEnd?.ends()
    controller.close()
    this.#listener.onDelivered?.(this)
  }

  #sendChunks(controller: ReadableStreamDefaultController<Uint8Array>): void {
    let bytes = 0
    let taken = 0
    while (bytes < CHUNK_BYTES) {
      const next = this.#chunks[this.#nextChunk]
      if (next === undefined) break
      const piece = typeof next === "string" ? encoder.encode(next) : next
      this.#nextChunk++
      bytes += piece.length
      taken += piece.length + CHUNK_OVERHEAD_BYTES
      controller.enqueue(piece)
    }
    // An index is cheaper than shifting. The list is cut when half of it has been read.
    if (2 * this.#nextChunk >= this.#chunks.length) {
      this.#chunks = this.#chunks.slice(this.#nextChunk)
      this.#nextChunk = 0
    }
    this.#lastReadAt = this.#ports.clock.running()
    this.#consumed(taken)
  }

  #consumed(bytes: number): void {
    if (bytes === 0) return
    this.#unread -= bytes
    this.#ports.unread.remove(this, bytes)
    if (this.#unread > 0) return
    this.#stallTimer?.cancel()
    this.#stallTimer = undefined
  }

  /** Bytes wait for the client. It counts as gone after `readerStallMs` without a read. */
  #watchForStall(): void {
    if (this.#stallTimer !== undefined || this.#hasLeft) return
    const { clock, limits } = this.#ports
    this.#lastReadAt = clock.running()
    this.#stallTimer = clock.after(limits.readerStallMs, () => this.#checkStall())
  }

  #checkStall(): void {
    const { clock, limits } = this.#ports
    const leftMs = this.#lastReadAt + limits.readerStallMs - clock.running()
    if (leftMs <= 1) return this.leave()
    this.#stallTimer = clock.after(leftMs, () => this.#checkStall())
  }
}

function splitIntoChunks(bytes: Uint8Array): Uint8Array[] {
  const pieces: Uint8Array[] = []
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) pieces.push(bytes.subarray(at, at + CHUNK_BYTES))
  return pieces
}

const stalledError = () => new Error("the client took nothing for too long")

/**
 * Unread bytes of all streams of this process. A backend never waits for a client (decisions §6), so bytes for a slow client are
 * buffered, up to a share of memory. Beyond it the stream with the most unread bytes is cut, and its client counts as gone.
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

  /** Adds bytes that `stream.unread` already includes. */
  add(stream: Outbox, bytes: number): void {
    this.#streams.add(stream)
    this.#total += bytes
    while (this.#total > this.#limit) {
      let largest = stream
      for (const other of this.#streams.all()) if (other.unread > largest.unread) largest = other
      largest.leave()
    }
  }

  /** Removes bytes that `stream.unread` no longer includes. */
  remove(stream: Outbox, bytes: number): void {
    this.#total -= bytes
    if (stream.unread === 0) this.#streams.delete(stream)
  }
}
