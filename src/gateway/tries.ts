/**
 * One call at one model's pool: whom it asks first, and whom after a failure (docs/operating/pools.md). A seat is a place at a
 * member, taken for as long as the call is there.
 */
import { soon, type Soon } from "../../actors/kernel/actor.ts"
import { unreachable } from "../../actors/unreachable.ts"
import type { Moment } from "../../actors/pool.ts"
import type { Upstream } from "../catalogue/model.ts"
import { Failure } from "../failure/failure.ts"
import type { Fault } from "../upstream/client.ts"
import type { Member } from "../upstream/providers.ts"
import type { Exchange } from "../wire/exchange.ts"
import { closedOf, originOf, type Pool, type PoolMember, type Pools } from "./pools.ts"

export interface TriesParts {
  readonly pools: Pools
  readonly pool: Pool
  /** What the conversation is known by, in 32 bits. */
  readonly conversation: number
  /** Whether a backend can do what is asked; undefined where any can. */
  readonly serves: ((upstream: Upstream) => boolean) | undefined
  /** How it is asked; a Failure says what its format cannot say. */
  readonly exchange: (upstream: Upstream) => Soon<Exchange | Failure>
}

export class Tries implements Moment {
  readonly #parts: TriesParts
  readonly #exchanges = new Map<Upstream, Exchange | Failure>()
  /** Places that are not asked again, nor at all. */
  #passed: Set<number> | undefined
  #tokens = 0
  #nowMs = 0
  /** Where the call belonged when it came. */
  #likely: number | undefined

  constructor(parts: TriesParts) {
    this.#parts = parts
    const { serves } = parts
    if (serves !== undefined) this.#passAll(({ upstream }) => !serves(upstream))
  }

  get isAlone(): boolean {
    return this.#parts.pool.isAlone
  }

  /** How the member is asked that this conversation belongs to; a Failure where no member's format can say what is asked. */
  first(): Soon<Exchange | Failure | undefined> {
    const { pool, conversation } = this.#parts
    this.#nowMs = this.#parts.pools.clock.monotonic()
    const choice = pool.choose(conversation, this)
    this.#likely = typeof choice === "number" ? choice : undefined
    const found = pool.members[typeof choice === "number" ? choice : this.#firstThatMayBeAsked()]
    return found && soon(this.#exchange(found.member.upstream), (met) => this.#orAnother(met))
  }

  #firstThatMayBeAsked(): number {
    return this.#parts.pool.members.findIndex((_, index) => this.mayAsk(index))
  }

  async #orAnotherOf(failure: Failure): Promise<Exchange | Failure> {
    return (await this.first()) ?? failure
  }

  /** The first one's failure is told where all of them fail. */
  #orAnother(met: Exchange | Failure): Soon<Exchange | Failure> {
    if (!(met instanceof Failure)) return met
    const another = this.#orAnotherOf(met)
    return another.then((other) => (other instanceof Failure ? met : other))
  }

  /** A seat at a member that has room, after `waitMs` at the longest. */
  take(tokens: number, waitMs: number, hasLeft: () => boolean): Soon<Seat | undefined> {
    this.#tokens = tokens
    this.#parts.pools.budget.called(this.#parts.pools.clock.monotonic())
    const found = this.#seat(false)
    if (found instanceof Promise) return found.then((one) => this.#orWait(one, waitMs, hasLeft))
    return this.#orWait(found, waitMs, hasLeft)
  }

  #orWait(found: Seat | undefined, waitMs: number, hasLeft: () => boolean): Soon<Seat | undefined> {
    if (found !== undefined || waitMs <= 0) return found
    const { pools } = this.#parts
    return pools.wait(() => (hasLeft() ? undefined : this.#seat(false)), waitMs)
  }

  /** Whether a call of so many tokens would find a seat now. */
  hasRoomFor(tokens: number): boolean {
    const { pools, pool, conversation } = this.#parts
    this.#tokens = tokens
    this.#nowMs = pools.clock.monotonic()
    return typeof pool.choose(conversation, this) === "number"
  }

  /** A seat at another member than has failed; undefined where none is left that is well and has room. */
  elsewhere(seat: Seat, fault: Fault): Soon<Seat | undefined> {
    if (this.isAlone) return undefined
    const origin = originOf(fault)
    const isOversize = fault.failure.code === "upstream.context_length_exceeded"
    if (origin === "request" && !isOversize) return undefined
    for (const [index, { member }] of this.#parts.pool.members.entries()) {
      const isSameKey = origin === "credential" && member.backend === seat.member.backend
      // What is too long for a backend is too long for it with any credential.
      const isSameBackend = isOversize && member.upstream === seat.member.upstream
      if (member === seat.member || isSameKey || isSameBackend) this.#pass(index)
    }
    return this.#seat(true, seat.isProbe)
  }

  /** Whether the one that has failed may be asked again, and not elsewhere. */
  mayRepeat(): boolean {
    const { pools } = this.#parts
    return pools.budget.take(pools.clock.monotonic())
  }

  mayAsk(index: number): boolean {
    return this.#passed?.has(index) !== true
  }
  isWell(index: number): boolean {
    const { own, credential } = this.#at(index)
    return this.isAlone || (own.circuit.mayPass(this.#nowMs) && credential.circuit.mayPass(this.#nowMs))
  }
  hasRoom(index: number): boolean {
    const { own, credential } = this.#at(index)
    return own.room.has(this.#tokens, this.#nowMs) && credential.room.has(this.#tokens, this.#nowMs)
  }
  underWay(index: number): number {
    return this.#at(index).own.room.underWay
  }
  illness(index: number): number {
    const { own, credential } = this.#at(index)
    return Math.max(own.circuit.reopensAt, credential.circuit.reopensAt)
  }

  /** `again`: not the call's first, so at nobody who is not well, and within the budget of all retries unless a probe has failed. */
  #seat(again: boolean, isFree = false): Soon<Seat | undefined> {
    const { pools, pool, conversation } = this.#parts
    for (;;) {
      this.#nowMs = pools.clock.monotonic()
      const choice = (again ? undefined : this.#stillLikely) ?? pool.choose(conversation, this)
      if (typeof choice !== "number" || (again && !this.isWell(choice))) return undefined
      const place = this.#at(choice)
      const exchange = this.#exchange(place.member.upstream)
      if (exchange instanceof Promise) return exchange.then(() => this.#seat(again, isFree))
      if (exchange instanceof Failure) continue
      if (again && !isFree && !pools.budget.take(this.#nowMs)) return undefined
      return new Seat(pools, place, { exchange, tokens: this.#tokens, isAlone: this.isAlone })
    }
  }

  /** To choose costs more than to look whether what was chosen may still be asked. */
  get #stillLikely(): number | undefined {
    const likely = this.#likely
    if (likely === undefined || !this.mayAsk(likely) || !this.isWell(likely) || !this.hasRoom(likely)) return undefined
    return likely
  }

  /** Members of whose format it is known that it cannot say what is asked are passed over. */
  #exchange(upstream: Upstream): Soon<Exchange | Failure> {
    const known = this.#exchanges.get(upstream)
    if (known !== undefined) return known
    const met = this.#parts.exchange(upstream)
    return met instanceof Promise ? met.then((one) => this.#met(upstream, one)) : this.#met(upstream, met)
  }

  #met(upstream: Upstream, met: Exchange | Failure): Exchange | Failure {
    this.#exchanges.set(upstream, met)
    if (met instanceof Failure) this.#passAll((member) => member.upstream === upstream)
    return met
  }

  #passAll(which: (member: Member) => boolean): void {
    this.#parts.pool.members.forEach(({ member }, index) => which(member) && this.#pass(index))
  }

  #pass(index: number): void {
    this.#passed ??= new Set()
    this.#passed.add(index)
  }

  #at(index: number): PoolMember {
    const member = this.#parts.pool.members[index]
    if (member === undefined) throw new Error(`the pool has no member ${index}`)
    return member
  }
}

interface SeatTerms {
  readonly exchange: Exchange
  readonly tokens: number
  readonly isAlone: boolean
}

/** A call's place at a member. */
export class Seat {
  readonly member: Member
  readonly exchange: Exchange
  /** Whether the call finds out for all if the member is well again. */
  readonly isProbe: boolean
  readonly #pools: Pools
  readonly #place: PoolMember
  readonly #tokens: number
  readonly #isOfMember: boolean
  readonly #isOfCredential: boolean
  #askedAt: number
  #isAsked = false
  #hasLeft = false

  constructor(pools: Pools, place: PoolMember, { exchange, tokens, isAlone }: SeatTerms) {
    const { own, credential, member } = place
    const nowMs = pools.clock.monotonic()
    this.member = member
    this.exchange = exchange
    this.#pools = pools
    this.#place = place
    this.#tokens = tokens
    this.#askedAt = nowMs
    this.#isOfMember = !isAlone && own.circuit.begins(nowMs)
    this.#isOfCredential = !isAlone && credential.circuit.begins(nowMs)
    this.isProbe = this.#isOfMember || this.#isOfCredential
    own.room.enters(tokens, nowMs)
    credential.room.enters(tokens, nowMs)
  }

  /** A request leaves. The first is counted already. */
  asks(): void {
    if (this.#isAsked) {
      this.#askedAt = this.#pools.clock.monotonic()
      for (const { room } of this.#both) room.asked(this.#tokens, this.#askedAt)
    }
    this.#isAsked = true
  }

  /** The first content of the request has come. */
  answers(): void {
    const before = closedOf(this.#place)
    for (const { circuit } of this.#both) circuit.answers(this.#askedAt)
    this.#pools.tell(this.#place, before, undefined)
  }

  /** The request was answered, and has come to so many tokens, where that is known. */
  answered(tokens: number | undefined): void {
    const nowMs = this.#pools.clock.monotonic()
    for (const { circuit, room } of this.#both) {
      circuit.succeeded(nowMs)
      if (tokens !== undefined) room.corrected(tokens - this.#tokens, this.#askedAt)
    }
  }

  failed(fault: Fault): void {
    const before = closedOf(this.#place)
    this.#learn(fault)
    this.#pools.tell(this.#place, before, fault)
  }

  #learn(fault: Fault): void {
    const nowMs = this.#pools.clock.monotonic()
    const { own, credential } = this.#place
    const origin = originOf(fault)
    switch (origin) {
      case "request":
        own.circuit.answers(this.#askedAt)
        return own.circuit.succeeded(nowMs)
      case "throttled": {
        const { retryAfterS } = fault.failure.detail
        return own.circuit.throttled(
          nowMs,
          retryAfterS === undefined ? undefined : retryAfterS * 1_000,
          this.#isOfMember,
        )
      }
      case "credential":
        return credential.circuit.refused(nowMs, this.#isOfCredential)
      case "member":
        return own.circuit.failed(nowMs, this.#isOfMember)
      default:
        return unreachable(origin)
    }
  }

  /** Right at any time, also twice. */
  leave(): void {
    if (this.#hasLeft) return
    this.#hasLeft = true
    for (const { room } of this.#both) room.leaves()
    if (this.#isOfMember) this.#place.own.circuit.unprobed()
    if (this.#isOfCredential) this.#place.credential.circuit.unprobed()
    this.#pools.freed()
  }

  get #both(): readonly [PoolMember["own"], PoolMember["credential"]] {
    return [this.#place.own, this.#place.credential]
  }
}
