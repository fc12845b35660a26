/**
 * One line of the ledger's entries: commits one batch at a time, in the order in which its entries came, so that a settlement
 * never overtakes its opening. An opening may wait for its settlement, and all for more to come. A commit whose outcome is
 * unknown is sent again until it is known: every row is idempotent. A batch that can never be committed is halved until the one
 * entry is found that it is for; that one is not charged, and everybody else goes on. An account that other processes are booking
 * too is in fewer batches (`Contention`).
 */
import {
  accountOf,
  type Barrier,
  barriersOf,
  type Batch,
  batchOf,
  type Entry,
  settledIn,
  type SettleEntry,
  type Settlement,
  voidOf,
} from "./batch.ts"
import type { Clock } from "./kernel/clock.ts"

export interface LanePorts {
  readonly clock: Clock
  /** Begins a commit, which ends with `take`, `refused` or `failed`. */
  readonly commit: (batch: Batch) => void
  /** It is time for `retry`. */
  readonly retry: () => void
}

const BATCH_LIMIT = 1_000
/** After a commit of so many entries the next one begins so long after it began: half of what a commit costs is not for its entries. */
const MANY = 8
const BETWEEN_MANY_MS = 8
const RETRY_FIRST_MS = 20
const RETRY_LAST_MS = 500

export class Lane {
  readonly #ports: LanePorts
  #queue: Entry[] = []
  /** How many entries the next batch may have; few while a bad one is looked for. */
  #batchLimit = BATCH_LIMIT
  #inFlight: Entry[] | undefined
  #beganAt = 0
  #retries = 0
  /** In running time: when the first of the queue is due, and when the next commit may begin. */
  #dueAt = Number.POSITIVE_INFINITY
  #notBefore = 0
  readonly #contention = new Contention()

  constructor(ports: LanePorts) {
    this.#ports = ports
  }

  get busy(): boolean {
    return this.#inFlight !== undefined
  }
  get waiting(): number {
    return this.#queue.length
  }
  get backlog(): number {
    return this.#queue.length + (this.#inFlight?.length ?? 0)
  }
  /** When the next commit ought to begin, in running time; Infinity when nothing waits for one. */
  get beginsAt(): number {
    return Math.max(this.#dueAt, this.#notBefore)
  }
  /** How long the commit under way has been tried; 0 when none is. */
  get lagMs(): number {
    return this.#inFlight === undefined ? 0 : this.#ports.clock.running() - this.#beganAt
  }
  /** When the commit under way was tried first, or the last one; in running time. */
  get beganAt(): number {
    return this.#beganAt
  }

  /** The entries of the commit under way. */
  get sent(): readonly Entry[] {
    return this.#inFlight ?? []
  }

  add(entry: Entry): void {
    this.#queue.push(entry)
    this.#dueAt = Math.min(this.#dueAt, this.#entryDueAt(entry))
  }

  /** Of any number: nothing spreads them. */
  #requeue(entries: Entry[]): void {
    this.#queue = entries
    this.#dueAt = Number.POSITIVE_INFINITY
    for (const entry of entries) this.#dueAt = Math.min(this.#dueAt, this.#entryDueAt(entry))
  }

  #entryDueAt(entry: Entry): number {
    return Math.max(dueAt(entry), this.#contention.heldUntil(entry))
  }

  /** With nothing queued the commit under way is all there is to wait for; a barrier needs no commit of its own. */
  addBarrier(barrier: Barrier): void {
    if (this.#inFlight === undefined && this.#queue.length === 0) return
    barrier.waits++
    if (this.#queue.length === 0) this.#inFlight?.push(barrier)
    else this.add(barrier)
  }

  /** Whether a settlement still in the queue was replaced. If the commit under way has it, its next try does not book it. */
  replace(voided: Settlement): boolean {
    const isIts = (entry: Entry): entry is SettleEntry =>
      entry.kind === "settle" && entry.settlement.opening.requestId === voided.opening.requestId
    const queued = this.#queue.find(isIts)
    const sent = this.#inFlight?.find(isIts)
    if (queued !== undefined) queued.settlement = voided
    else if (sent !== undefined) sent.settlement = voided
    return queued !== undefined
  }

  /** Begins the next commit, also of nothing: of all, or without the openings that are not due, unless somebody waits for all. */
  next(what: "all" | "due"): void {
    const since = this.#ports.clock.running()
    const settled = settledIn(this.#queue)
    const isForAll = what === "all" || this.#queue.some((entry) => entry.kind === "barrier")
    const entries: Entry[] = []
    const left: Entry[] = []
    for (const entry of this.#queue) {
      const isTaken = entry.kind === "open" && settled.has(entry.opening.requestId)
      const isDue = isForAll || ((isTaken || dueAt(entry) <= since) && this.#contention.heldUntil(entry) <= since)
      if (isDue && entries.length < this.#batchLimit) entries.push(entry)
      else left.push(entry)
    }
    this.#requeue(left)
    this.#inFlight = entries
    this.#beganAt = since
    this.retry()
  }

  retry(): void {
    if (this.#inFlight === undefined) throw new Error("there is nothing to commit")
    this.#ports.commit(batchOf(this.#inFlight))
  }

  /** The commit under way has ended: its entries. Accounts that were `met` were left out of it. */
  take(met: readonly string[] = []): readonly Entry[] {
    const done = this.#inFlight
    if (done === undefined) throw new Error("a commit ended that nobody began")
    this.#inFlight = undefined
    if (done.length >= MANY) this.#notBefore = this.#beganAt + BETWEEN_MANY_MS
    this.#retries = 0
    this.#batchLimit = Math.min(BATCH_LIMIT, 2 * this.#batchLimit)
    if (this.#contention.booked(done, this.#beganAt, met)) this.#requeue(this.#queue)
    return done
  }

  /**
   * An account of the commit that has just ended was left out, because others have its rows. True where it is to be tried again
   * with the next commits, which begin with these entries of it; false where it has been tried often enough.
   */
  putOff(accountId: string, entries: readonly Entry[]): boolean {
    if (!this.#contention.met(accountId, this.#ports.clock.running())) return false
    this.#requeue([...entries, ...this.#queue])
    return true
  }

  /** Takes what of an account is queued out of the queue. */
  takeQueued(accountId: string): readonly Entry[] {
    const isIts = (entry: Entry) => entry.kind !== "barrier" && accountOf(entry) === accountId
    const taken = this.#queue.filter(isIts)
    this.#requeue(this.#queue.filter((entry) => !isIts(entry)))
    return taken
  }

  get queuedBarriers(): readonly Barrier[] {
    return barriersOf(this.#queue)
  }

  failed(): void {
    const waitMs = Math.min(RETRY_LAST_MS, RETRY_FIRST_MS * 2 ** this.#retries++)
    this.#ports.clock.after(waitMs, this.#ports.retry)
  }

  /** Puts the commit under way back into the queue. */
  putBack(): void {
    this.#requeue([...this.take(), ...this.#queue])
  }

  /** Whoever waits for what is given up here is not answered, and so told that nothing is charged. */
  refused(): void {
    const entries = this.take()
    const [only, ...others] = entries.filter((entry) => entry.kind !== "barrier")
    if (others.length > 0) {
      this.#batchLimit = Math.ceil(entries.length / 2)
      this.#requeue([...entries, ...this.#queue])
    } else {
      const barriers = entries.filter((entry) => entry.kind === "barrier")
      const isCharge = only?.kind === "settle" && !only.settlement.voided
      const voids: Entry[] = isCharge ? [{ kind: "settle", settlement: voidOf(only.settlement), reply: () => {} }] : []
      this.#requeue([...voids, ...barriers, ...this.#queue])
    }
  }
}

const dueAt = (entry: Entry): number => (entry.kind === "open" ? entry.dueAt : 0)

interface Contended {
  /** From the beginning of one commit to the next one. */
  gapMs: number
  /** It is in no commit before. */
  heldUntil: number
  /** Meetings since it was booked last. */
  meetings: number
}

const FIRST_GAP_MS = 4
/** What a call waits for at most because of it, on average half of it. */
const LAST_GAP_MS = 32
const SHRINKS_TO = 0.8
/** A commit of others is over soon; each further meeting doubles it. */
const AGAIN_MS = 3
/** One that is met more often in a row is held by somebody who does not just book it. */
const MAX_MEETINGS = 3
/** An account without a call for so long is as any other. */
const FORGOTTEN_MS = 1_000

/**
 * Accounts whose rows other processes are booking at the same time. A commit has an account's rows to itself until it
 * is durable, so several processes that book one account after every few calls mostly wait for each other. Each of
 * them therefore books such an account seldom and with more calls at once: after each meeting half as often, after
 * each commit without one somewhat more often. Others are booked as ever. Times in milliseconds, on the running
 * clock.
 */
class Contention {
  readonly #accounts = new Map<string, Contended>()

  /** -Infinity of an account that is not contended, and of what is about all. */
  heldUntil(entry: Entry): number {
    if (this.#accounts.size === 0 || entry.kind === "barrier") return Number.NEGATIVE_INFINITY
    return this.#accounts.get(accountOf(entry) ?? "")?.heldUntil ?? Number.NEGATIVE_INFINITY
  }

  /** Others had its rows. True where it is to be tried again; false of one that was met too often in a row, which is forgotten. */
  met(accountId: string, now: number): boolean {
    const known = this.#accounts.get(accountId) ?? { gapMs: FIRST_GAP_MS, heldUntil: now, meetings: 0 }
    if (known.meetings >= MAX_MEETINGS) {
      this.#accounts.delete(accountId)
      return false
    }
    known.heldUntil = now + AGAIN_MS * 2 ** known.meetings++
    known.gapMs = Math.min(LAST_GAP_MS, 2 * known.gapMs)
    this.#accounts.set(accountId, known)
    return true
  }

  /** A commit that began at `since` has booked these, but for what is of accounts that were met. Whether anything is contended. */
  booked(entries: readonly Entry[], since: number, met: readonly string[]): boolean {
    if (this.#accounts.size === 0) return false
    const booked = new Set(entries.map(accountOf))
    for (const [accountId, known] of this.#accounts) {
      if (met.includes(accountId)) continue
      if (booked.has(accountId)) this.#wasBooked(accountId, known, since)
      else if (known.heldUntil + FORGOTTEN_MS < since) this.#accounts.delete(accountId)
    }
    return true
  }

  #wasBooked(accountId: string, known: Contended, since: number): void {
    if (known.meetings === 0) known.gapMs *= SHRINKS_TO
    known.meetings = 0
    known.heldUntil = since + known.gapMs
    if (known.gapMs < FIRST_GAP_MS) this.#accounts.delete(accountId)
  }
}
