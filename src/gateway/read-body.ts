/**
 * Reads a request's body within limits of size, time and memory. The announced length is not trusted (decisions §4.5, §13.10). A
 * small body with a length is read at once. A larger one is read in chunks, into memory that grows with what has arrived: an
 * announced length alone takes no memory.
 */
import type { MaybePromise } from "../../actors/kernel/actor.ts"
import { type Clock, systemClock } from "../../actors/kernel/clock.ts"
import { Failure, invalid } from "../failure/failure.ts"
import { contentEncodingOf, unpackerOf } from "../upstream/body.ts"

export interface ReadBodyOptions {
  readonly maxBytes: number
  /** The longest time without a byte. */
  readonly idleMs?: number
  readonly clock?: Clock
  /** Where its bytes are counted. The small bodies of the dashboard are not counted. */
  readonly reservation?: BodyReservation
  /**
   * Called before a body of this many bytes is read: at its announced length, or when it grows past them. `holdsMuch`: with it the
   * account would hold more than the part that every account may.
   */
  readonly admit?: (bytes: number, holdsMuch: boolean) => MaybePromise<Failure | undefined>
}

const BODY_IDLE_MS = 30_000
/** A slow body must arrive at this rate at least, counted after the idle time. */
const MIN_BYTES_PER_MS = 16
/** A body up to this size is read at once, with one deadline for the whole. */
const SINGLE_READ_BYTES = 64 * 1024
/** The first buffer of a body; it is doubled as the body grows. */
const FIRST_BYTES = 64 * 1024

/** Requests whose body was read in part. */
const partlyRead = new WeakSet<Request>()

/** What of a request's body nobody has read: a small one has mostly come already, a large one may still be on its way. */
export function unreadBody(request: Request): "small" | "large" | undefined {
  if (partlyRead.has(request)) return "large"
  const length = contentLengthOf(request)
  if (length === undefined ? !request.headers.has("transfer-encoding") : length === 0) return undefined
  if (request.bodyUsed || request.body === null) return undefined
  return length !== undefined && length <= SINGLE_READ_BYTES ? "small" : "large"
}

export function readBody(request: Request, terms: ReadBodyOptions): Promise<Uint8Array<ArrayBuffer> | Failure> {
  const length = contentLengthOf(request)
  if (length === undefined || length > SINGLE_READ_BYTES || length > terms.maxBytes)
    return readLarge(request, length, terms)
  const { reservation, admit } = terms
  const admitted = admit?.(length, reservation?.isSmall(length) === false)
  if (admitted === undefined) return readSmall(request, length, terms)
  return Promise.resolve(admitted).then((refused) => refused ?? readSmall(request, length, terms))
}

/**
 * The same of a call, whose client may have compressed its body: some agents do, with large ones. It is unpacked within the limits of a
 * body that does not say its length, so what counts are the bytes that come of it.
 */
export function readPackedBody(request: Request, terms: ReadBodyOptions): Promise<Uint8Array<ArrayBuffer> | Failure> {
  const encoding = contentEncodingOf(request.headers)
  if (encoding === undefined) return readBody(request, terms)
  const unpack = unpackerOf(encoding, { chunkSize: FIRST_BYTES })
  return unpack === undefined
    ? Promise.resolve(unknownEncoding())
    : readBody(request, terms).then((packed) =>
        packed instanceof Failure || packed.length === 0 ? packed : readUnpacked(packed, unpack([packed]), terms),
      )
}

async function readUnpacked(
  packed: Uint8Array,
  body: ReadableStream<Uint8Array>,
  terms: ReadBodyOptions,
): Promise<Uint8Array<ArrayBuffer> | Failure> {
  const read = await readChunks(body, undefined, terms, { heldBytes: packed.length, broken: corrupt })
  // Nothing goes on unpacking what is refused.
  await body.cancel().catch(() => {})
  if (!(read instanceof Failure)) terms.reservation?.reserve(read.buffer.byteLength)
  return read
}

async function readLarge(
  request: Request,
  length: number | undefined,
  terms: ReadBodyOptions,
): Promise<Uint8Array<ArrayBuffer> | Failure> {
  if (length !== undefined) {
    if (length > terms.maxBytes) return tooLarge(terms.maxBytes)
    const refused = await terms.admit?.(length, false)
    if (refused) return refused
  }
  if (request.body === null) return new Uint8Array()
  const read = await readChunks(request.body, length, terms)
  if (read instanceof Failure) partlyRead.add(request)
  return read
}

/** Undefined if the header is missing or is no length. */
function contentLengthOf({ headers }: Request): number | undefined {
  const length = headers.get("content-length")
  return length !== null && /^\d{1,15}$/.test(length) ? Number(length) : undefined
}

function readSmall(
  request: Request,
  length: number,
  terms: ReadBodyOptions,
): Promise<Uint8Array<ArrayBuffer> | Failure> {
  const { clock = systemClock, idleMs = BODY_IDLE_MS, maxBytes, reservation } = terms
  if (reservation?.reserve(length) === false) return Promise.resolve(noRoom())
  return new Promise((resolve) => {
    const timer = clock.after(idleMs + length / MIN_BYTES_PER_MS, () => resolve(tooLate()))
    const end = (bytes: Uint8Array<ArrayBuffer> | Failure) => {
      timer.cancel()
      resolve(bytes)
    }
    request.bytes().then(
      (bytes) => end(bytes.length <= maxBytes ? bytes : tooLarge(maxBytes)),
      () => end(interrupted()),
    )
  })
}

async function readChunks(
  body: ReadableStream<Uint8Array>,
  length: number | undefined,
  terms: ReadBodyOptions,
  /** What the call holds beside, and what is said of a body that breaks off. */
  { heldBytes, broken }: { readonly heldBytes: number; readonly broken: () => Failure } = AS_IT_COMES,
): Promise<Uint8Array<ArrayBuffer> | Failure> {
  const { maxBytes, reservation, admit } = terms
  let bytes = new Uint8Array(0)
  let size = 0
  const reader = body.getReader()
  // Releasing the lock ends a pending read. A promise that each read is raced with would keep every chunk in memory until the end.
  using _ = { [Symbol.dispose]: () => reader.releaseLock() }
  using progress = new Progress(terms, () => reader.releaseLock())
  try {
    for (;;) {
      const piece = await reader.read()
      if (piece.done) return bytes.subarray(0, size)
      const end = size + piece.value.length
      if (end > maxBytes) return tooLarge(maxBytes)
      if (end > bytes.length) {
        const room = Math.min(Math.max(FIRST_BYTES, 2 * bytes.length, end), length ?? maxBytes)
        const holdsMuch = reservation?.isSmall(heldBytes + room) === false
        const refused = length === undefined || holdsMuch ? await admit?.(end, holdsMuch) : undefined
        if (refused) return refused
        if (reservation?.reserve(heldBytes + room) === false) return noRoom()
        const grown = new Uint8Array(room)
        grown.set(bytes.subarray(0, size))
        bytes = grown
      }
      bytes.set(piece.value, size)
      size = end
      progress.advanceTo(size)
    }
  } catch {
    return progress.isLate ? tooLate() : broken()
  }
}

/** Watches the progress of a body with one timer. */
class Progress implements Disposable {
  isLate = false
  readonly #onLate: () => void
  readonly #clock: Clock
  readonly #idleMs: number
  readonly #startedAt: number
  #lastChunkAt: number
  #size = 0
  #timer

  constructor({ clock = systemClock, idleMs = BODY_IDLE_MS }: ReadBodyOptions, onLate: () => void) {
    this.#onLate = onLate
    this.#clock = clock
    this.#idleMs = idleMs
    this.#startedAt = clock.running()
    this.#lastChunkAt = this.#startedAt
    this.#timer = clock.after(idleMs, () => this.#check())
  }

  advanceTo(size: number): void {
    this.#size = size
    this.#lastChunkAt = this.#clock.running()
  }

  [Symbol.dispose](): void {
    this.#timer.cancel()
  }

  #check(): void {
    const wholeBy = this.#startedAt + this.#idleMs + this.#size / MIN_BYTES_PER_MS
    const left = Math.min(this.#lastChunkAt + this.#idleMs, wholeBy) - this.#clock.running()
    if (left > 1) this.#timer = this.#clock.after(left, () => this.#check())
    else {
      this.isLate = true
      this.#onLate()
    }
  }
}

const tooLarge = (maxBytes: number): Failure =>
  new Failure("request.too_large", { message: `The request body is larger than ${maxBytes} bytes.` })
const closing = { Connection: "close" }
const tooLate = (): Failure =>
  new Failure("request.invalid", { message: "The request body did not come in time.", headers: closing })
const interrupted = (): Failure => invalid("The request body broke off.")
const unknownEncoding = (): Failure =>
  invalid("The request body's Content-Encoding must be one of: gzip, deflate, br, zstd, identity.")
const corrupt = (): Failure => invalid("The request body is not compressed as its Content-Encoding says.")
const AS_IT_COMES = { heldBytes: 0, broken: interrupted }
const noRoom = (): Failure =>
  new Failure("gateway.capacity", { message: "Too many large requests are being read.", retryAfterS: 1 })

/**
 * The memory of request bodies, from reading until the call no longer needs them, and of responses that are large for their price
 * (relay.ts). An account may hold as many bytes as it leaves free for the others, so that a newcomer always finds room. An
 * eighth is reserved for accounts that hold little, so that many accounts that take all they can leave something for the others. A
 * body that does not fit is refused at once, because half a body is useless.
 */
export class BodyMemory {
  readonly total: number
  /** What any account may hold, also of the reserved eighth. */
  readonly smallBytes: number
  #held = 0
  readonly #byAccount = new Map<string, number>()

  constructor(total: number) {
    this.total = total
    this.smallBytes = Math.min(MAX_SMALL_BYTES, Math.floor(total / 64))
  }

  get held(): number {
    return this.#held
  }

  heldBy(accountId: string): number {
    return this.#byAccount.get(accountId) ?? 0
  }

  /** An empty reservation of this account. */
  reservationFor(accountId: string): BodyReservation {
    return new BodyReservation(this, accountId)
  }

  /** Adds bytes of an account, or removes them if negative. False where there is no room; then nothing is changed. */
  change(accountId: string, bytes: number): boolean {
    const mine = this.heldBy(accountId) + bytes
    const all = this.#held + bytes
    const room = mine <= this.smallBytes ? all <= this.total : mine <= Math.floor((this.total * 7) / 8) - all
    if (bytes > 0 && !room) return false
    this.#held = all
    if (mine > 0) this.#byAccount.set(accountId, mine)
    else this.#byAccount.delete(accountId)
    return true
  }
}

const MAX_SMALL_BYTES = 1024 * 1024

/** The bytes of one call. */
export class BodyReservation implements Disposable {
  readonly #all: BodyMemory
  readonly #accountId: string
  #bytes = 0

  constructor(all: BodyMemory, accountId: string) {
    this.#all = all
    this.#accountId = accountId
  }

  /** Whether the account would hold little with so many bytes of this call. */
  isSmall(bytes: number): boolean {
    return this.#all.heldBy(this.#accountId) + bytes - this.#bytes <= this.#all.smallBytes
  }

  /** Sets the reservation to this many bytes, if there is room. */
  reserve(bytes: number): boolean {
    if (bytes !== this.#bytes && !this.#all.change(this.#accountId, bytes - this.#bytes)) return false
    this.#bytes = bytes
    return true
  }

  [Symbol.dispose](): void {
    this.reserve(0)
  }
}
