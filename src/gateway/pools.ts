/**
 * The pool of each model: which members are healthy and have capacity, and which one is asked next. Limits and health are kept for each
 * member and each credential, across changes of the catalogue, and by this process alone. Milliseconds, monotonic.
 */
import type { Clock } from "../../actors/kernel/clock.ts"
import { Capacity, Circuit, RetryBudget } from "../../actors/backend.ts"
import { type Choice, type PoolStatus, Ranking } from "../../actors/pool.ts"
import type { Share } from "../../actors/lease.ts"
import type { BackendLimits, MemberSetting, MemberState, Model } from "../catalogue/model.ts"
import type { Fault } from "../upstream/client.ts"
import { type Backend, type Backends, type Member, membersOf } from "../upstream/providers.ts"
import { classOf } from "./backend-health.ts"
import type { Occurrence } from "./backend-history.ts"

/** The circuit and the capacity of a member, or of a credential. */
export class BackendStatus {
  readonly circuit = new Circuit()
  readonly capacity: Capacity
  limits: BackendLimits
  /** When an operator last said that it is to be asked again. */
  retriedAt: number | undefined
  /** An operator has taken it out. Calls that came before and wait find it so too. */
  isDisabled = false

  constructor(limits: BackendLimits, share: Share) {
    this.limits = limits
    this.capacity = new Capacity(limits, share)
  }

  setLimits(limits: BackendLimits, share: Share): void {
    this.limits = limits
    this.capacity.setLimits(limits, share)
  }
}

export interface PoolMember {
  readonly member: Member
  /** The id of the model whose pool it is. */
  readonly model: string
  /** As an operator has set it. */
  readonly state: MemberState
  /** An operator's, or the catalogue's; of one that is draining nothing. */
  readonly weight: number
  /** Of the member, and of the credential that it is asked with. */
  readonly own: BackendStatus
  readonly credential: BackendStatus
}

/** The members of one model that are configured, without those that are disabled. */
export class Pool {
  readonly members: readonly PoolMember[]
  readonly #ranking: Ranking

  constructor(members: readonly PoolMember[]) {
    this.members = members
    this.#ranking = new Ranking(
      members.map(({ member: { id, upstream }, weight }) => ({ id, weight, priority: upstream.priority })),
    )
  }

  /** Where there is nobody else to ask, nothing is learnt that would keep a call away. */
  get isAlone(): boolean {
    return this.members.length === 1
  }

  /** None of them may be asked any more. */
  get isDisabled(): boolean {
    return this.members.every(({ own }) => own.isDisabled)
  }

  choose(conversation: number, status: PoolStatus): Choice {
    return this.#ranking.choose(conversation, status)
  }
}

interface PoolsParts {
  readonly backends: Backends
  readonly clock: Clock
  readonly share: () => Share
  /** What operators have set of a member. */
  readonly setting: (member: string) => MemberSetting | undefined
  /** Told of circuits that open, and of those that calls have closed. */
  readonly onOccurrence?: ((occurrence: Occurrence) => void) | undefined
}

/** Whoever waits for room looks again after so long, because rooms by the minute free themselves. */
const LOOK_MS = 250

export class Pools {
  readonly clock: Clock
  readonly budget = new RetryBudget()
  readonly #parts: PoolsParts
  readonly #pools = new WeakMap<Model, Pool>()
  readonly #members = new Map<string, BackendStatus>()
  readonly #credentials = new Map<Backend, BackendStatus>()
  readonly #waiting = new Set<() => void>()

  constructor(parts: PoolsParts) {
    this.#parts = parts
    this.clock = parts.clock
  }

  of(model: Model): Pool {
    const existing = this.#pools.get(model)
    if (existing !== undefined) return existing
    const pool = new Pool(this.all(model).filter(({ state }) => state !== "disabled"))
    this.#pools.set(model, pool)
    return pool
  }

  /** Those that are disabled, too. */
  all(model: Model): readonly PoolMember[] {
    const { backends, setting } = this.#parts
    const share = this.#parts.share()
    return membersOf(model, backends).map((member) => {
      const { state = "serving", weight = member.weight, retriedAt } = setting(member.id) ?? {}
      const own = statusOf(this.#members, memberKey(model, member), member.upstream, share)
      const credential = statusOf(this.#credentials, member.backend, member.backend.credential, share)
      own.isDisabled = state === "disabled"
      if (own.retriedAt !== retriedAt) {
        own.retriedAt = retriedAt
        own.circuit.close()
        credential.circuit.close()
      }
      return { member, model: model.id, state, weight: state === "draining" ? 0 : weight, own, credential }
    })
  }

  /** A model's own cap, or what its members take together where that is less: then calls wait in the model's own queue. */
  capOf(model: Model): number {
    const most = this.of(model).members.map(({ member: { upstream, backend } }) =>
      Math.min(upstream.maxConcurrency ?? Infinity, backend.credential.maxConcurrency ?? Infinity),
    )
    return most.length === 0 ? model.maxConcurrency : Math.min(model.maxConcurrency, sum(most))
  }

  /** Reports the circuits that this failure or an answer has opened or closed. The second argument is `closedCircuits` before it. */
  reportCircuits(place: PoolMember, [wasOwn, wasCredential]: ClosedCircuits, fault: Fault | undefined): void {
    const [own, credential] = closedCircuits(place)
    if (own === wasOwn && credential === wasCredential) return
    const { onOccurrence } = this.#parts
    const { member, model } = place
    const { provider, credential: asked } = member.backend
    const why = { class: fault && classOf(fault), status: fault?.status }
    const well = { class: undefined, status: undefined }
    if (own !== wasOwn)
      onOccurrence?.({
        member: member.id,
        model,
        ...(own ? { event: "closed", ...well } : { event: "opened", ...why }),
      })
    if (credential !== wasCredential)
      onOccurrence?.({
        member: `${provider.id}/${asked.name}`,
        model: undefined,
        ...(credential ? { event: "credential_accepted", ...well } : { event: "credential_refused", ...why }),
      })
  }

  /** The catalogue has changed. What is known of members that are gone is forgotten. */
  replace(models: readonly Model[]): void {
    const keys = new Set<string>()
    for (const model of models) {
      for (const { member, own } of this.all(model)) {
        keys.add(memberKey(model, member))
        own.setLimits(member.upstream, this.#parts.share())
      }
    }
    for (const [key, { capacity }] of this.#members)
      if (!keys.has(key) && capacity.inFlight === 0) this.#members.delete(key)
    this.wakeWaiting()
  }

  /** This process's part of all limits is another from now on. */
  setShare(share: Share): void {
    for (const status of [...this.#members.values(), ...this.#credentials.values()])
      status.setLimits(status.limits, share)
    this.wakeWaiting()
  }

  /** A member may have capacity again: whoever waits looks. */
  wakeWaiting(): void {
    for (const look of this.#waiting) look()
  }

  /** Asks again and again until there is something, for `waitMs` at the most. */
  async wait<Found>(
    look: () => Found | undefined | Promise<Found | undefined>,
    waitMs: number,
  ): Promise<Found | undefined> {
    const until = this.clock.monotonic() + waitMs
    for (let leftMs = waitMs; leftMs > 0; leftMs = until - this.clock.monotonic()) {
      const { promise, resolve } = Promise.withResolvers<void>()
      const timer = this.clock.wait(Math.min(leftMs, LOOK_MS), resolve)
      this.#waiting.add(resolve)
      await promise
      timer.cancel()
      this.#waiting.delete(resolve)
      const found = await look()
      if (found !== undefined) return found
    }
    return undefined
  }
}

type ClosedCircuits = readonly [own: boolean, credential: boolean]
export const closedCircuits = ({ own, credential }: PoolMember): ClosedCircuits => [
  own.circuit.isClosed,
  credential.circuit.isClosed,
]

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0)

const memberKey = ({ id }: Model, member: Member): string => JSON.stringify([id, member.id])

function statusOf<Key>(all: Map<Key, BackendStatus>, key: Key, limits: BackendLimits, share: Share): BackendStatus {
  const known = all.get(key) ?? new BackendStatus(limits, share)
  all.set(key, known)
  return known
}

/** Whose failure it is. One of the request says nothing of the backend. */
export type Origin = "request" | "throttled" | "credential" | "member"

export function originOf({ failure: { code }, alert, status }: Fault): Origin {
  if (alert && status !== undefined && REFUSED.has(status)) return "credential"
  if (code === "upstream.rate_limited") return "throttled"
  return code.startsWith("upstream.") ? "request" : "member"
}

/** With an alert: what is not taken, not paid or not allowed, by whichever status a vendor says so. */
const REFUSED = new Set([400, 401, 402, 403, 422, 429])
