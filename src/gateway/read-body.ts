/**
 * Reads a request's body within limits of size, time and memory, without trusting what it says of its length (decisions
 * §4.5, §13.10). A small body with a length is read in one go; a larger one by pieces, into memory that grows with what has
 * come: a length that is only announced takes room from nobody.
 */
import type { MaybePromise } from "../../actors/kernel/actor.ts"
import { type Clock, systemClock } from "../../actors/kernel/clock.ts"
import { Failure } from "../failure/failure.ts"

export interface BodyTerms {
  readonly maxBytes: number
  /** How long nothing may come. */
  readonly idleMs?: number
  readonly clock?: Clock
  /** Where its bytes are counted; nowhere for the small bodies of the dashboard. */
  readonly share?: BodyShare
  /**
   * Asked before a body of so many bytes is read: at its length, or as it grows past them. `much`: with it the account holds
   * more than any account may.
   */
  readonly admit?: (bytes: number, much: boolean) => MaybePromise<Failure | undefined>
}

const BODY_IDLE_MS = 30_000
/** A body that trickles in ends some day: beyond the idle time it must have come at this rate. */
const LEAST_BYTES_PER_MS = 16
/** Read in one go; then the one deadline is that of the whole. */
const WHOLE_BYTES = 64 * 1024
/** What a body gets at first; doubled as it grows. */
const FIRST_BYTES = 64 * 1024

/** Requests whose body was read in part: what still comes is unread. */
const partlyRead = new WeakSet<Request>()

/** Whether so much of a request's body is unread that an answer may be lost while its client still writes. */
export function isMuchUnread(request: Request): boolean {
  if (partlyRead.has(request)) return true
  const length = lengthOf(request)
  if (length === undefined ? !request.headers.has("transfer-encoding") : length <= WHOLE_BYTES) return false
  return !request.bodyUsed && request.body !== null
}

export function readBody(request: Request, terms: BodyTerms): Promise<Uint8Array<ArrayBuffer> | Failure> {
  const length = lengthOf(request)
  if (length === undefined || length > WHOLE_BYTES || length > terms.maxBytes) return readLong(request, length, terms)
  const { share, admit } = terms
  const admitted = admit?.(length, share?.isLittle(length) === false)
  if (admitted === undefined) return readShort(request, length, terms)
  return Promise.resolve(admitted).then((refused) => refused ?? readShort(request, length, terms))
}

async function readLong(
  request: Request,
  length: number | undefined,
  terms: BodyTerms,
): Promise<Uint8Array<ArrayBuffer> | Failure> {
  if (length !== undefined) {
    if (length > terms.maxBytes) return tooLarge(terms.maxBytes)
    const refused = await terms.admit?.(length, false)
    if (refused) return refused
  }
  if (request.body === null) return new Uint8Array()
  const read = await readPieces(request.body, length, terms)
  if (read instanceof Failure) partlyRead.add(request)
  return read
}

/** Undefined where it says none, or nothing that is a length. */
function lengthOf({ headers }: Request): number | undefined {
  const told = headers.get("content-length")
  return told !== null && /^\d{1,15}$/.test(told) ? Number(told) : undefined
}

function readShort(request: Request, length: number, terms: BodyTerms): Promise<Uint8Array<ArrayBuffer> | Failure> {
  const { clock = systemClock, idleMs = BODY_IDLE_MS, maxBytes, share } = terms
  if (share?.hold(length) === false) return Promise.resolve(noRoom())
  return new Promise((resolve) => {
    const timer = clock.after(idleMs + length / LEAST_BYTES_PER_MS, () => resolve(tooLate()))
    const end = (bytes: Uint8Array<ArrayBuffer> | Failure) => {
      timer.cancel()
      resolve(bytes)
    }
    request.bytes().then(
      (bytes) => end(bytes.length <= maxBytes ? bytes : tooLarge(maxBytes)),
      () => end(brokeOff()),
    )
  })
}

async function readPieces(
  body: ReadableStream<Uint8Array>,
  length: number | undefined,
  terms: BodyTerms,
): Promise<Uint8Array<ArrayBuffer> | Failure> {
  const { maxBytes, share, admit } = terms
  let bytes = new Uint8Array(0)
  let size = 0
  const reader = body.getReader()
  // A read that is under way ends with the lock; what comes then is for whoever throws it away. Not a promise that each read is
  // raced with, for that would keep every piece until the end.
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
        const much = share?.isLittle(room) === false
        const refused = length === undefined || much ? await admit?.(end, much) : undefined
        if (refused) return refused
        if (share?.hold(room) === false) return noRoom()
        const grown = new Uint8Array(room)
        grown.set(bytes.subarray(0, size))
        bytes = grown
      }
      bytes.set(piece.value, size)
      size = end
      progress.cameTo(size)
    }
  } catch {
    return progress.isLate ? tooLate() : brokeOff()
  }
}

/** Watches that a body comes on: one timer, which looks how far it has come. */
class Progress implements Disposable {
  isLate = false
  readonly #onLate: () => void
  readonly #clock: Clock
  readonly #idleMs: number
  readonly #startedAt: number
  #cameAt: number
  #size = 0
  #timer

  constructor({ clock = systemClock, idleMs = BODY_IDLE_MS }: BodyTerms, onLate: () => void) {
    this.#onLate = onLate
    this.#clock = clock
    this.#idleMs = idleMs
    this.#startedAt = clock.running()
    this.#cameAt = this.#startedAt
    this.#timer = clock.after(idleMs, () => this.#look())
  }

  cameTo(size: number): void {
    this.#size = size
    this.#cameAt = this.#clock.running()
  }

  [Symbol.dispose](): void {
    this.#timer.cancel()
  }

  #look(): void {
    const wholeBy = this.#startedAt + this.#idleMs + this.#size / LEAST_BYTES_PER_MS
    const left = Math.min(this.#cameAt + this.#idleMs, wholeBy) - this.#clock.running()
    if (left > 1) this.#timer = this.#clock.after(left, () => this.#look())
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
const brokeOff = (): Failure => new Failure("request.invalid", { message: "The request body broke off." })
const noRoom = (): Failure =>
  new Failure("gateway.capacity", { message: "Too many large requests are being read.", retryAfterS: 1 })

/**
 * The bytes of request bodies that are held at one time, from reading until the call no longer needs them, and of answers that
 * are large for their price (large-answers.ts). An account may
 * hold as many as are left free for the others, and whoever comes next still finds room, however many came before. An eighth
 * is left for those that hold little, so that many accounts that take all they can do not leave the others nothing. What
 * does not fit is refused at once, for a body half read is of no use to anybody.
 */
export class BodyBytes {
  readonly total: number
  /** What any account may hold, also of the part that is left for that. */
  readonly little: number
  #held = 0
  readonly #byAccount = new Map<string, number>()

  constructor(total: number) {
    this.total = total
    this.little = Math.min(MOST_LITTLE, Math.floor(total / 64))
  }

  get held(): number {
    return this.#held
  }

  heldBy(accountId: string): number {
    return this.#byAccount.get(accountId) ?? 0
  }

  /** Nothing yet, of this account. */
  share(accountId: string): BodyShare {
    return new BodyShare(this, accountId)
  }

  /** So many more of an account, or fewer; false where there is no room, and then nothing is changed. */
  change(accountId: string, bytes: number): boolean {
    const mine = this.heldBy(accountId) + bytes
    const all = this.#held + bytes
    const room = mine <= this.little ? all <= this.total : mine <= Math.floor((this.total * 7) / 8) - all
    if (bytes > 0 && !room) return false
    this.#held = all
    if (mine > 0) this.#byAccount.set(accountId, mine)
    else this.#byAccount.delete(accountId)
    return true
  }
}

const MOST_LITTLE = 1024 * 1024

/** What one call holds. */
export class BodyShare implements Disposable {
  readonly #all: BodyBytes
  readonly #accountId: string
  #bytes = 0

  constructor(all: BodyBytes, accountId: string) {
    this.#all = all
    this.#accountId = accountId
  }

  /** Whether the account would hold little with so many bytes of this call. */
  isLittle(bytes: number): boolean {
    return this.#all.heldBy(this.#accountId) + bytes - this.#bytes <= this.#all.little
  }

  /** Holds so many bytes in all, if there is room for them. */
  hold(bytes: number): boolean {
    if (bytes !== this.#bytes && !this.#all.change(this.#accountId, bytes - this.#bytes)) return false
    this.#bytes = bytes
    return true
  }

  [Symbol.dispose](): void {
    this.hold(0)
  }
}
