/**
 * Selects the members of one model's pool for one call: the first one, and the next one after a failure (docs/operating/pools.md). A
 * seat is the call's place at a member: what it occupies, and what the circuits learn from how the call went. It is left once.
 */
import { andThen, type MaybePromise } from "../../actors/kernel/actor.ts"
import type { PoolStatus } from "../../actors/pool.ts"
import type { Upstream } from "../catalogue/model.ts"
import { Failure } from "../failure/failure.ts"
import type { Fault } from "../upstream/client.ts"
import type { Member } from "../upstream/providers.ts"
import type { Exchange } from "../wire/exchange.ts"
import { closedCircuits, originOf, type Pool, type PoolMember, type Pools } from "./pools.ts"
import { unreachable } from "../../actors/unreachable.ts"

interface MemberSelectorParts {
  readonly pools: Pools
  readonly pool: Pool
  /** The hash of the conversation, in 32 bits. */
  readonly conversation: number
  /** Whether a backend can do what is asked; undefined where any can. */
  readonly serves: ((upstream: Upstream) => boolean) | undefined
  /** The exchange with a backend; a Failure where its format cannot express the request. */
  readonly exchange: (upstream: Upstream) => MaybePromise<Exchange | Failure>
}

export class MemberSelector implements PoolStatus {
  readonly #parts: MemberSelectorParts
  readonly #exchanges = new Map<Upstream, Exchange | Failure>()
  /** Members, by index, that this call must not use. */
  #excluded: Set<number> | undefined
  #tokens = 0
  #nowMs = 0
  /** The member that the conversation belonged to when the call came. */
  #preferred: number | undefined

  constructor(parts: MemberSelectorParts) {
    this.#parts = parts
    const { serves } = parts
    if (serves !== undefined) this.#excludeAll(({ upstream }) => !serves(upstream))
  }

  get isAlone(): boolean {
    return this.#parts.pool.isAlone
  }

  /** The exchange with the member that this conversation belongs to; a Failure where no member's format can express the request. */
  firstExchange(): MaybePromise<Exchange | Failure | undefined> {
    const { pool, conversation } = this.#parts
    this.#nowMs = this.#parts.pools.clock.monotonic()
    const choice = pool.choose(conversation, this)
    this.#preferred = typeof choice === "number" ? choice : undefined
    const found = pool.members[typeof choice === "number" ? choice : this.#firstEligible()]
    return found && andThen(this.#exchange(found.member.upstream), (met) => this.#orNext(met))
  }

  #firstEligible(): number {
    return this.#parts.pool.members.findIndex((_, index) => this.isEligible(index))
  }

  /** The first member's failure is returned where all of them fail. */
  #orNext(met: Exchange | Failure): MaybePromise<Exchange | Failure> {
    return met instanceof Failure ? this.#nextOr(met) : met
  }

  async #nextOr(failure: Failure): Promise<Exchange | Failure> {
    const other = await this.firstExchange()
    return other instanceof Failure ? failure : (other ?? failure)
  }

  /** A seat at a member that has room, after `waitMs` at the longest; a Failure where none may be asked any more. */
  acquire(tokens: number, waitMs: number, hasLeft: () => boolean): MaybePromise<Seat | Failure | undefined> {
    this.#tokens = tokens
    this.#parts.pools.budget.countCall(this.#parts.pools.clock.monotonic())
    const found = this.#seat(false)
    if (found instanceof Promise) return found.then((one) => this.#orWait(one, waitMs, hasLeft))
    return this.#orWait(found, waitMs, hasLeft)
  }

  #orWait(found: Seat | undefined, waitMs: number, hasLeft: () => boolean): MaybePromise<Seat | Failure | undefined> {
    const { pools, pool } = this.#parts
    if (found === undefined && pool.isDisabled) return new Failure("dependency.upstream_unconfigured")
    if (found !== undefined || waitMs <= 0) return found
    return pools.wait(() => (hasLeft() ? undefined : this.#seat(false)), waitMs)
  }

  /** Whether a call of so many tokens would find a seat now. */
  hasCapacityFor(tokens: number): boolean {
    const { pools, pool, conversation } = this.#parts
    this.#tokens = tokens
    this.#nowMs = pools.clock.monotonic()
    return typeof pool.choose(conversation, this) === "number"
  }

  /** A seat at another member after a failure; undefined where none is left that is healthy and has capacity. */
  failover(seat: Seat, fault: Fault): MaybePromise<Seat | undefined> {
    if (this.isAlone) return undefined
    const origin = originOf(fault)
    const isOversize = fault.failure.code === "upstream.context_length_exceeded"
    if (origin === "request" && !isOversize) return undefined
    for (const [index, { member }] of this.#parts.pool.members.entries()) {
      const isSameKey = origin === "credential" && member.backend === seat.member.backend
      // What is too long for a backend is too long for it with any credential.
      const isSameBackend = isOversize && member.upstream === seat.member.upstream
      if (member === seat.member || isSameKey || isSameBackend) this.#exclude(index)
    }
    return this.#seat(true, seat.isProbe)
  }

  /** Whether the member that has failed may be asked again. Takes one from the retry budget. */
  mayRetrySame(): boolean {
    const { pools } = this.#parts
    return pools.budget.take(pools.clock.monotonic())
  }

  isEligible(index: number): boolean {
    return this.#excluded?.has(index) !== true && !this.#at(index).own.isDisabled
  }
  isHealthy(index: number): boolean {
    const { own, credential } = this.#at(index)
    return this.isAlone || (own.circuit.allows(this.#nowMs) && credential.circuit.allows(this.#nowMs))
  }
  hasCapacity(index: number): boolean {
    const { own, credential } = this.#at(index)
    return (
      own.capacity.hasRoomFor(this.#tokens, this.#nowMs) && credential.capacity.hasRoomFor(this.#tokens, this.#nowMs)
    )
  }
  inFlight(index: number): number {
    return this.#at(index).own.capacity.inFlight
  }
  reopensAt(index: number): number {
    const { own, credential } = this.#at(index)
    return Math.max(own.circuit.reopensAt, credential.circuit.reopensAt)
  }

  /** `isRetry`: only at a healthy member, and within the retry budget unless `isExempt`, as after a failed probe. */
  #seat(isRetry: boolean, isExempt = false): MaybePromise<Seat | undefined> {
    const { pools, pool, conversation } = this.#parts
    for (;;) {
      this.#nowMs = pools.clock.monotonic()
      const choice = (isRetry ? undefined : this.#stillPreferred) ?? pool.choose(conversation, this)
      if (typeof choice !== "number" || (isRetry && !this.isHealthy(choice))) return undefined
      const place = this.#at(choice)
      const exchange = this.#exchange(place.member.upstream)
      if (exchange instanceof Promise) return exchange.then(() => this.#seat(isRetry, isExempt))
      if (exchange instanceof Failure) continue
      if (isRetry && !isExempt && !pools.budget.take(this.#nowMs)) return undefined
      return new Seat(pools, place, { exchange, tokens: this.#tokens, isAlone: this.isAlone })
    }
  }

  /** The first choice, if it still holds: checking that costs less than choosing again. */
  get #stillPreferred(): number | undefined {
    const preferred = this.#preferred
    if (
      preferred === undefined ||
      !this.isEligible(preferred) ||
      !this.isHealthy(preferred) ||
      !this.hasCapacity(preferred)
    )
      return undefined
    return preferred
  }

  /** The exchange with a backend. Members whose format cannot express the request are excluded. */
  #exchange(upstream: Upstream): MaybePromise<Exchange | Failure> {
    const known = this.#exchanges.get(upstream)
    if (known !== undefined) return known
    const met = this.#parts.exchange(upstream)
    return met instanceof Promise ? met.then((one) => this.#remember(upstream, one)) : this.#remember(upstream, met)
  }

  #remember(upstream: Upstream, met: Exchange | Failure): Exchange | Failure {
    this.#exchanges.set(upstream, met)
    if (met instanceof Failure) this.#excludeAll((member) => member.upstream === upstream)
    return met
  }

  #excludeAll(which: (member: Member) => boolean): void {
    this.#parts.pool.members.forEach(({ member }, index) => which(member) && this.#exclude(index))
  }

  #exclude(index: number): void {
    this.#excluded ??= new Set()
    this.#excluded.add(index)
  }

  #at(index: number): PoolMember {
    const member = this.#parts.pool.members[index]
    if (member === undefined) throw new Error(`the pool has no member ${index}`)
    return member
  }
}

interface SeatParts {
  readonly exchange: Exchange
  readonly tokens: number
  readonly isAlone: boolean
}

export class Seat {
  readonly member: Member
  readonly exchange: Exchange
  /** Whether this call is the probe of a half-open circuit. */
  readonly isProbe: boolean
  readonly #pools: Pools
  readonly #place: PoolMember
  readonly #tokens: number
  readonly #probesMember: boolean
  readonly #probesCredential: boolean
  #sentAt: number
  #hasSent = false
  #isReleased = false

  constructor(pools: Pools, place: PoolMember, { exchange, tokens, isAlone }: SeatParts) {
    const { own, credential, member } = place
    const nowMs = pools.clock.monotonic()
    this.member = member
    this.exchange = exchange
    this.#pools = pools
    this.#place = place
    this.#tokens = tokens
    this.#sentAt = nowMs
    this.#probesMember = !isAlone && own.circuit.beginCall(nowMs)
    this.#probesCredential = !isAlone && credential.circuit.beginCall(nowMs)
    this.isProbe = this.#probesMember || this.#probesCredential
    own.capacity.enter(tokens, nowMs)
    credential.capacity.enter(tokens, nowMs)
  }

  /** A request is sent. The first one is counted already. */
  requestSent(): void {
    if (this.#hasSent) {
      this.#sentAt = this.#pools.clock.monotonic()
      for (const { capacity } of this.#both) capacity.countRequest(this.#tokens, this.#sentAt)
    }
    this.#hasSent = true
  }

  /** The first content of the request has come. */
  onContent(): void {
    const before = closedCircuits(this.#place)
    for (const { circuit } of this.#both) circuit.onContent(this.#sentAt)
    this.#pools.reportCircuits(this.#place, before, undefined)
  }

  /** The request was answered, and has come to so many tokens, where that is known. */
  onSuccess(tokens: number | undefined): void {
    const nowMs = this.#pools.clock.monotonic()
    for (const { circuit, capacity } of this.#both) {
      circuit.onSuccess(nowMs)
      if (tokens !== undefined) capacity.correctTokens(tokens - this.#tokens, this.#sentAt, nowMs)
    }
  }

  onFailure(fault: Fault): void {
    const before = closedCircuits(this.#place)
    this.#learn(fault)
    this.#pools.reportCircuits(this.#place, before, fault)
  }

  #learn(fault: Fault): void {
    const nowMs = this.#pools.clock.monotonic()
    const { own, credential } = this.#place
    const origin = originOf(fault)
    switch (origin) {
      case "request":
        own.circuit.onContent(this.#sentAt)
        return own.circuit.onSuccess(nowMs)
      case "throttled": {
        const { retryAfterS } = fault.failure.detail
        return own.circuit.onThrottled(
          nowMs,
          retryAfterS === undefined ? undefined : retryAfterS * 1_000,
          this.#probesMember,
        )
      }
      case "credential":
        return credential.circuit.onRefused(nowMs, this.#probesCredential)
      case "member":
        return own.circuit.onFailure(nowMs, this.#probesMember)
      default:
        return unreachable(origin)
    }
  }

  /** Right at any time, also twice. */
  release(): void {
    if (this.#isReleased) return
    this.#isReleased = true
    for (const { capacity } of this.#both) capacity.leave()
    if (this.#probesMember) this.#place.own.circuit.endProbe()
    if (this.#probesCredential) this.#place.credential.circuit.endProbe()
    this.#pools.wakeWaiting()
  }

  get #both(): readonly [PoolMember["own"], PoolMember["credential"]] {
    return [this.#place.own, this.#place.credential]
  }
}
