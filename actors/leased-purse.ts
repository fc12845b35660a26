/**
 * A purse that shares what there is with the purses of other processes: it grows when it is short, and gives back what
 * it does not need when a neighbour is short, when it has been idle, and while its process drains (decisions §3). Money in
 * micro-rupiah, times in milliseconds. An account's money and a key's budget are both leased through it.
 *
 * One statement about a lease is under way at a time, so that what is being given back is never counted as missing.
 */
import type { Clock } from "./kernel/clock.ts"
import {
  type Growth,
  type HoldOutcome,
  type HoldRequest,
  type LeaseNews,
  type LeasePorts,
  type LookAt,
  Purse,
  type Settled,
  type VersionedLease,
  type WaitingHold,
  WaitingHolds,
} from "./lease.ts"
import { larger, type Micro, micro, minus, notNegative, smaller, zero } from "./money/micro.ts"
import { holdFrom } from "./money/price.ts"
import { unreachable } from "./unreachable.ts"

/** For how long "there is no more" holds before the database is asked again, if no notice comes and nothing was given back. */
const ASK_AGAIN_MS = 250
/** How long more is waited for where there is more: by a call that could not be held at all, or not in full. */
const WAIT_MS = 300
const WAIT_FOR_FULL_MS = 100
/** A notice may be lost, so a purse that waits for one also looks. */
const LOOK_MS = 50
/** Shorter than the idle time after which an actor is put away. */
const IDLE_MS = 60_000
/** A purse used within this time keeps half of what it has when a neighbour is short of less. */
const IN_USE_MS = 1_000
const RETURN_AGAIN_MS = 500
const RECOUNT_MS = 500

export class LeasedPurse {
  readonly #ports: LeasePorts
  readonly #clock: Clock
  readonly #purse: Purse
  /** The lease's, as far as is known. */
  #version: number
  readonly #waiting = new WaitingHolds()
  #underWay: "growth" | "return" | "recount" | undefined
  #wantsGrowth = false
  /** What has been settled may be more or less than is known here; until it is recounted. */
  #doubtful = false
  #wantsRecount = false
  /** Charges that were made or taken back, of earlier purses too; and how many of them when the recount under way began. */
  #charges = 0
  #chargesBefore = 0
  #unreturned = false
  /** A growth has no outcome, or was begun by a purse before this one: until another statement has one, more may be granted than we know of. */
  #unsure: boolean
  /** The terms have changed since the statement under way was begun: what it grants is given back. */
  #isStale = false
  #askedAt: number
  #usedAt: number
  readonly #looks = new Set<LookAt>()
  #draining = false
  /** What a neighbour still waits for, and until when. */
  #owed: Micro = zero
  #owedUntil = -Infinity
  #yieldsUntil = -Infinity

  /** Without a lease, the first growth tells what it is. `more`: there was more to be had. `isUnsure`: a purse before this one may have left one. */
  constructor(ports: LeasePorts, lease: VersionedLease | undefined, more: boolean, isUnsure = false) {
    this.#ports = ports
    this.#clock = ports.clock
    this.#purse = new Purse(lease)
    this.#version = lease?.version ?? 0
    this.#usedAt = ports.clock.monotonic()
    this.#askedAt = more ? -Infinity : this.#usedAt
    this.#unsure = isUnsure
    if (this.#purse.isOpen || isUnsure) this.#lookLater("idleness", IDLE_MS)
  }

  get held(): Micro {
    return this.#purse.held
  }
  get settled(): Micro {
    return this.#purse.settled
  }
  get available(): Micro {
    return this.#purse.available
  }
  /** Nothing is held or under way, and nothing is kept from others. */
  get isIdle(): boolean {
    const atWork = !this.#waiting.isEmpty || this.#underWay !== undefined || this.#unreturned
    return !atWork && !this.#unsure && !this.#doubtful && this.#purse.isEmpty && this.#purse.available === 0n
  }

  /** Answers at once where it can. A release of the request id ends the wait. */
  hold(terms: HoldRequest, answer: (outcome: HoldOutcome) => void): void {
    this.#usedAt = this.#clock.monotonic()
    this.#lookLater("idleness", IDLE_MS)
    const inDoubt = this.#underWay !== undefined || this.#usedAt - this.#askedAt >= ASK_AGAIN_MS
    const request = { terms, answer, since: this.#usedAt }
    if ((this.#holdsInFull(terms) || !inDoubt) && this.#tryHold(request)) return
    if (!inDoubt && this.#waiting.isEmpty) return answer("insufficient")
    if (this.#waiting.isFull) return answer("unavailable")
    this.#waiting.add(request)
    if (this.#underWay !== "growth") this.#grow()
  }

  trim(requestId: string, amount: Micro): void {
    this.#purse.trim(requestId, amount)
    this.#share()
  }

  release(requestId: string): void {
    this.#purse.release(requestId)
    this.#waiting.release(requestId)
    this.#share()
  }

  settle(requestId: string, actual: Micro): Settled {
    const settled = this.#purse.settle(requestId, actual)
    this.#charged()
    return settled
  }

  /** Charges in full a call that holds nothing, as the database takes it from the lease: held or not. */
  count(actual: Micro): void {
    this.#purse.count(actual)
    this.#charged()
  }

  #charged(): void {
    this.#charges++
    if (this.#purse.isOverdrawn) this.doubt()
    this.#share()
  }

  unsettle(charge: Micro): void {
    this.#purse.unsettle(charge)
    this.#charged()
  }

  /** A charge of this lease was made or taken back, and it is not known whether the purse counts it. */
  doubt(): void {
    this.#charges++
    this.#doubtful = true
    this.#lookLater("doubt", RECOUNT_MS)
  }

  receive(news: LeaseNews): void {
    switch (news.type) {
      case "grown":
        return this.#onGrown(news)
      case "not-grown":
        return this.#onNotGrown()
      case "returned":
        return this.#onReturned(news.lease)
      case "not-returned":
        return this.#onNotReturned()
      case "freed":
        return this.#onFreed()
      case "recalled":
        return this.#onRecalled(news.amount, news.yields)
      case "changed":
        return this.reconsider()
      case "drain":
        return this.drain(true)
      case "look":
        return this.#onLook(news.at)
      default:
        return unreachable(news)
    }
  }

  drain(draining: boolean): void {
    this.#draining = draining
    this.#share()
  }

  /** Gives back all that is not held, and asks anew when it is needed: the terms of the whole may have changed. */
  reconsider(): void {
    this.#isStale = this.#underWay !== undefined || this.#unsure
    this.#giveBack(this.#purse.outdate())
    this.#onFreed()
  }

  #holdsInFull({ target }: HoldRequest): boolean {
    return target <= this.#purse.available / 2n
  }

  #tryHold({ terms, answer }: WaitingHold): boolean {
    const hold = holdFrom(this.#purse.available, terms.target, terms.least)
    if (hold === undefined) return false
    this.#purse.hold(terms.requestId, hold)
    answer(hold)
    return true
  }

  #grow(): void {
    this.#wantsGrowth = true
    this.#next()
  }

  #next(): void {
    if (this.#underWay !== undefined) return
    if (this.#unreturned || this.#wantsRecount) {
      this.#underWay = this.#wantsRecount ? "recount" : "return"
      this.#unreturned = false
      this.#wantsRecount = false
      this.#chargesBefore = this.#charges
      this.#ports.giveBack(this.#purse.returned, this.#underWay === "recount")
    } else if (this.#wantsGrowth) {
      this.#underWay = "growth"
      this.#wantsGrowth = false
      this.#purse.growthBegins()
      this.#ports.grow(this.#waiting.short(this.#purse.available), this.#version)
    }
  }

  #onGrown({ lease, more }: Growth): void {
    const now = this.#clock.monotonic()
    const overtaken = lease.version !== this.#version + 1
    this.#version = lease.version
    this.#underWay = undefined
    this.#unsure = false
    if (this.#purse.grownTo(lease)) this.doubt()
    if (this.#giveBackStale()) return
    // What was asked for in vain is not asked for again at once.
    let inVain = !more && !overtaken
    this.#waiting.serve((waiting) => {
      const waitedMs = now - waiting.since
      const hopes = more || this.#wantsGrowth
      const isFull = this.#holdsInFull(waiting.terms)
      const takesLess = !overtaken && (!hopes || waitedMs >= WAIT_FOR_FULL_MS)
      if ((isFull || takesLess) && this.#tryHold(waiting)) {
        inVain ||= !isFull
        return undefined
      }
      if (overtaken || (hopes && waitedMs < WAIT_MS)) return "waits"
      inVain = true
      return "insufficient"
    })
    this.#askedAt = inVain ? now : -Infinity
    // Nothing was granted, and nobody else asked, by a growth that was overtaken.
    this.#wantsGrowth ||= overtaken && !this.#waiting.isEmpty
    if (!this.#waiting.isEmpty) this.#lookLater("waiting", LOOK_MS)
    this.#share()
    this.#next()
  }

  /** Who waits is served of what is granted under the terms that hold now. */
  #giveBackStale(): boolean {
    if (!this.#isStale) return false
    this.#isStale = false
    this.#wantsGrowth ||= !this.#waiting.isEmpty
    this.#giveBack(this.#purse.available)
    this.#next()
    return true
  }

  #onNotGrown(): void {
    this.#underWay = undefined
    this.#unsure = true
    this.#waiting.serve((waiting) => (this.#tryHold(waiting) ? undefined : "unavailable"))
    this.#next()
  }

  #onReturned(lease: VersionedLease): void {
    const isRecount = this.#underWay === "recount"
    this.#version = lease.version
    this.#underWay = undefined
    this.#unsure = false
    this.#askedAt = -Infinity
    this.#purse.grantedIs(lease.granted)
    if (isRecount && this.#charges === this.#chargesBefore) {
      this.#doubtful = false
      if (!this.#unreturned) this.#purse.returnedIs(lease.returned)
      // What is not of the lease was spent elsewhere, and a growth tells how much that is. Or it was past the limit and is taken back:
      // then the lease has got more back than the limit leaves, and what there is has to be asked for anew.
      const isOther = lease.settled < this.#purse.settled
      this.#purse.settledIs(lease.settled)
      this.#wantsGrowth ||= isOther
      if (isOther) this.#giveBack(this.#purse.outdate())
    } else if (isRecount) this.#lookLater("doubt", RECOUNT_MS)
    // A charge is there that was taken back here, or one that was made elsewhere.
    else if (!this.#unreturned && lease.returned < this.#purse.returned) this.doubt()
    if (this.#giveBackStale()) return
    this.#share()
    this.#next()
  }

  /** It may have been given back or not; it is not ours any more, and is offered until that is known. */
  #onNotReturned(): void {
    if (this.#underWay === "recount") this.#lookLater("doubt", RECOUNT_MS)
    this.#underWay = undefined
    this.#unreturned = true
    this.#wantsGrowth = false
    this.#waiting.serve((waiting) => (this.#tryHold(waiting) ? undefined : "unavailable"))
    this.#lookLater("unreturned", RETURN_AGAIN_MS)
  }

  #onFreed(): void {
    this.#askedAt = -Infinity
    if (this.#underWay !== undefined) this.#wantsGrowth ||= !this.#waiting.isEmpty
    else if (!this.#waiting.isEmpty && this.#clock.monotonic() >= this.#yieldsUntil) this.#grow()
  }

  #onRecalled(amount: Micro, yields: boolean): void {
    const now = this.#clock.monotonic()
    if (!this.#waiting.isEmpty && !yields) return
    if (!this.#waiting.isEmpty) this.#yieldsUntil = now + 2 * LOOK_MS
    const spare = now - this.#usedAt < IN_USE_MS ? micro(this.#purse.available / 2n) : this.#purse.available
    this.#owed = amount
    this.#owedUntil = now + WAIT_MS
    this.#giveBack(larger(amount, spare))
    this.#findOut()
  }

  /** Giving back nothing tells what there is, and ends what is on its way; of a lease that was never seen only a growth does. */
  #findOut(): void {
    if (!this.#unsure || this.#underWay === "return" || this.#underWay === "recount") return
    if (!this.#purse.isOpen) return this.#grow()
    this.#unreturned = true
    this.#next()
  }

  /** Passes on what became free just now, where somebody waits for it, or where it was held under other terms. */
  #share(): void {
    if (this.#draining && this.#waiting.isEmpty) return this.#giveBack(this.#purse.available)
    this.#giveBack(this.#purse.takeLeftover())
    if (this.#clock.monotonic() < this.#owedUntil) this.#giveBack(this.#owed)
  }

  #giveBack(most: Micro): void {
    const amount = smaller(most, this.#purse.available)
    if (amount <= 0n) return
    this.#purse.giveBack(amount)
    this.#owed = notNegative(minus(this.#owed, amount))
    this.#unreturned = true
    this.#next()
  }

  #onLook(at: LookAt): void {
    this.#looks.delete(at)
    if (at === "doubt") this.#wantsRecount = true
    if (at === "doubt" || at === "unreturned") return this.#next()
    if (at === "waiting") {
      if (this.#waiting.isEmpty) return
      if (this.#underWay === undefined) this.#grow()
      return this.#lookLater("waiting", LOOK_MS)
    }
    if (this.#clock.monotonic() - this.#usedAt >= IDLE_MS) {
      this.#giveBack(this.#purse.available)
      this.#findOut()
    }
    if (!this.isIdle) this.#lookLater("idleness", IDLE_MS)
  }

  #lookLater(at: LookAt, ms: number): void {
    if (this.#looks.has(at)) return
    this.#looks.add(at)
    this.#clock.after(ms, () => this.#ports.self({ type: "look", at }))
  }
}
