/**
 * The response of one call, shared by its client and by duplicates. It is stored while it is written, and each reader gets it from
 * the first byte. The call has a client as long as one reader is connected. Sizes in bytes.
 */
import {
  type ClientOutbox,
  Outbox,
  type OutboxListener,
  type OutboxPorts,
  CHUNK_BYTES,
  type StreamConnection,
} from "./outbox.ts"
import { IdleTimer } from "./timeouts.ts"

/** Concurrent readers, the first client included. */
const MAX_READERS = 4

/** Whose memory holds the response. */
export interface ResponseStorage {
  /** Reserves more bytes, or fewer if negative. False where there is no room. */
  reserve(bytes: number): boolean
  /** Whether a response is of use that its latest reader has whole. */
  readonly isKeptOnDelivery: boolean
  /** The latest reader has the whole response. */
  onDelivered(): void
}

/** What a call is told about its clients. */
type CallListener = Required<Pick<OutboxListener, "onIdle">> & {
  /** The last reader leaves. */
  onLeave(): void
}

const encoder = new TextEncoder()
/** After this many texts they are encoded into chunks, whose size is known. */
const MAX_TEXTS = 64

export class SharedResponse implements ClientOutbox, OutboxListener {
  readonly #ports: OutboxPorts
  readonly #storage: ResponseStorage
  /** Never changed in place, because a reader may leave while all are written to. */
  #readers: readonly Outbox[]
  /** Undefined once it has everything or has left. */
  #first: Outbox | undefined
  /**
   * The newest reader: a client that retries has given up on its earlier connections. Undefined once it has everything or has left,
   * because it holds its client's request.
   */
  #latest: Outbox | undefined
  /** Undefined as long as nobody asked for heartbeats. */
  #idleTimer: IdleTimer | undefined
  #listener: CallListener | undefined
  /** Each at most CHUNK_BYTES. */
  #chunks: Uint8Array<ArrayBuffer>[] = []
  /** Text after the chunks, not yet encoded: most responses are never read a second time. */
  #texts: string[] = []
  #textBytes = 0
  /** Bytes reserved for the texts. */
  #textReservation = 0
  #reserved = 0
  #hasBegun = false
  #ended = false
  #isDiscarded = false

  /** `connection`: the first client's. */
  constructor(ports: OutboxPorts, storage: ResponseStorage, connection: StreamConnection | undefined) {
    this.#ports = ports
    this.#storage = storage
    this.#latest = this.#first = new Outbox(ports, this, connection)
    this.#readers = [this.#first]
  }

  /** Connects the call that writes the response. */
  begin(hearing: CallListener): this {
    this.#listener = hearing
    return this
  }

  get hasBegun(): boolean {
    return this.#hasBegun
  }
  get hasLeft(): boolean {
    return this.#readers.length === 0
  }
  /** The response went to the first client in one piece, or its stream has ended. */
  get hasEnded(): boolean {
    return this.#ended
  }
  /** The response is not stored and cannot be replayed. */
  get isDiscarded(): boolean {
    return this.#isDiscarded
  }
  /** One more reader can join, and the whole response so far is stored. */
  get acceptsReaders(): boolean {
    return this.#readers.length < MAX_READERS && !this.#isDiscarded
  }

  /** Adds a reader, which gets everything from the first byte. */
  join(connection: StreamConnection | undefined): Outbox {
    const reader = (this.#latest = new Outbox(this.#ports, this, connection))
    this.#readers = [...this.#readers, reader]
    this.#flushTexts()
    reader.catchUp(this.#chunks)
    if (this.#ended) reader.end()
    return reader
  }

  /** The whole response for this reader, if it has ended and fits in one chunk. */
  inOnePiece(reader: Outbox): Uint8Array<ArrayBuffer> | undefined {
    this.#flushTexts()
    const whole = this.#ended && this.#chunks.length === 1 ? this.#chunks[0] : undefined
    if (whole === undefined) return undefined
    this.onDelivered(reader)
    reader.leave()
    return whole
  }

  watchIdle(): void {
    if (this.#ended) return
    this.#idleTimer ??= new IdleTimer(this.#ports, () => this.#listener?.onIdle())
    this.#idleTimer.start()
  }

  write(text: string): void {
    if (text === "" || this.#ended) return
    this.#idleTimer?.activity()
    this.#hasBegun = true
    this.#buffer(text)
    for (const reader of this.#readers) reader.write(text)
  }

  /** Heartbeats go to the readers that wait and are not stored. */
  heartbeat(text: string): void {
    this.#idleTimer?.activity()
    this.#hasBegun = true
    for (const reader of this.#readers) reader.heartbeat(text)
  }

  end(): void {
    if (this.#ended) return
    this.#close()
    for (const reader of this.#readers) reader.end()
    this.#flushWhenUnread()
  }

  /** The response breaks off. Nobody gets the rest, and it is not stored. */
  abort(): void {
    this.#close()
    this.discard()
    for (const reader of this.#readers) reader.leave()
  }

  /** The first client has left. */
  leave(): void {
    this.#first?.leave()
  }

  takeWhole(): string | undefined {
    const whole = this.#first?.takeWhole()
    if (whole !== undefined && this.#first !== undefined) this.onDelivered(this.#first)
    return whole
  }

  /** The first client's stream. It is needed for the head even if the client has left already. */
  stream(): ReadableStream<Uint8Array> {
    return this.#first?.stream() ?? new ReadableStream({ pull: (controller) => controller.error(new Error("it left")) })
  }

  /** The response went to the first client in one piece, without `write`. */
  deliveredWhole(text: string): void {
    const first = this.#first
    const isDone = first !== undefined && first === this.#latest && !this.#storage.isKeptOnDelivery
    if (this.#chunks.length === 0 && this.#textBytes === 0) {
      if (!isDone) this.#buffer(text)
      this.#close()
    }
    if (first !== undefined) this.onDelivered(first)
  }

  /** Drops the stored response. Nobody can join any more; current readers go on. */
  discard(): void {
    this.#isDiscarded = true
    this.#chunks = []
    this.#texts = []
    this.#textBytes = 0
    this.#reserve(-this.#reserved)
  }

  /** A reader leaves. */
  onLeave(reader: Outbox): void {
    this.#removeReader(reader)
    if (this.hasLeft) this.#listener?.onLeave()
  }

  /** A reader has the whole response. */
  onDelivered(reader: Outbox): void {
    if (reader === this.#latest) this.#storage.onDelivered()
    this.#removeReader(reader)
  }

  #removeReader(reader: Outbox): void {
    this.#readers = this.#readers.filter((each) => each !== reader)
    if (reader === this.#first) this.#first = undefined
    if (reader === this.#latest) this.#latest = undefined
    this.#flushWhenUnread()
  }

  #buffer(text: string): void {
    if (this.#isDiscarded) return
    if (this.#textReservation === 0) {
      if (!this.#reserve(CHUNK_BYTES)) return this.discard()
      this.#textReservation = CHUNK_BYTES
    }
    this.#texts.push(text)
    this.#textBytes += Buffer.byteLength(text)
    if (this.#textBytes >= CHUNK_BYTES || this.#texts.length >= MAX_TEXTS) this.#flushTexts()
  }

  /** Encodes the texts into chunks. */
  #flushTexts(): void {
    const room = this.#ended ? this.#textReservation : 0
    if (this.#isDiscarded || (this.#textBytes === 0 && room === 0)) return
    if (!this.#reserve(this.#textBytes - room)) return this.discard()
    this.#textReservation -= room
    const bytes = encoder.encode(this.#texts.join(""))
    this.#texts = []
    this.#textBytes = 0
    for (let at = 0; at < bytes.length; at += CHUNK_BYTES) this.#chunks.push(bytes.subarray(at, at + CHUNK_BYTES))
  }

  /** Gives back unused reserved bytes once the response has ended and has no readers. */
  #flushWhenUnread(): void {
    if (this.#ended && this.hasLeft) this.#flushTexts()
  }

  #close(): void {
    this.#ended = true
    this.#idleTimer?.end()
    // The finished call must not stay in memory with its response.
    this.#listener = undefined
  }

  #reserve(bytes: number): boolean {
    if (bytes === 0) return true
    if (!this.#storage.reserve(bytes)) return false
    this.#reserved += bytes
    // Eviction may have made room by discarding this very response.
    if (bytes > 0 && this.#isDiscarded) return !this.#reserve(-bytes)
    return true
  }
}
