/**
 * The purses that a call is under beside its account: budgets and windows of its key and of the key's parent, and ceilings of ten
 * minutes. Micro-rupiah. A parent is asked for what the child has granted, so that neither's budget is ever passed, on any number
 * of processes.
 *
 * A ceiling is of the key or of its account (actors/account.ts). It holds for a call and is charged with it, so that what is spent and
 * held of any ten minutes never passes it, on any number of processes. Who is refused by one is paused (store/breakers.ts).
 */
import type { Charged, HoldReply } from "../../actors/account.ts"
import { type MaybePromise, andThen } from "../../actors/kernel/actor.ts"
import type {
  CallUsage,
  CountReply,
  KeyRecord,
  LateRefusal,
  Reservation,
  ReserveReply,
} from "../../actors/key-record.ts"
import type { HoldRequest } from "../../actors/lease.ts"
import type { PayingParent } from "../../actors/ledger.ts"
import { type Micro, minus, notNegative, smaller } from "../../actors/money/micro.ts"
import type { PeriodStarts } from "../../actors/period.ts"
import { unreachable } from "../../actors/unreachable.ts"
import { Failure, retryAfter } from "../failure/failure.ts"
import type { FailureCode } from "../failure/table.ts"
import { type PurseLook, ownerOf } from "../store/breakers.ts"
import type { Actors } from "./actors.ts"

/** Whose key it is asked of. */
interface CallerKey {
  readonly keyHash: string
  readonly record: Pick<KeyRecord, "parent">
}

/** What was taken. */
export interface ReservedOfKeys {
  /** The most that their budgets pay, the parent's after the key's; undefined where neither has one. */
  readonly hold: Micro | undefined
  readonly starts: PeriodStarts
  readonly parent: PayingParent | undefined
}

/** Of a refusal the caller gives back what was taken (`releaseKeys`). */
export function reserveOfKeys(
  actors: Actors,
  { keyHash, record: { parent } }: CallerKey,
  reservation: Reservation,
): MaybePromise<ReservedOfKeys | Failure> {
  return andThen(actors.keys.reserve(keyHash, reservation), (own) => {
    const reserved = reservedOf(own, (failure) => failure)
    if (reserved instanceof Failure || parent === undefined) return reserved
    const ofBoth = { ...reservation, worst: reserved.hold ?? reservation.worst }
    return andThen(actors.keys.reserve(parent.keyHash, ofBoth), (its) => {
      const rest = reservedOf(its, ofParent)
      if (rest instanceof Failure) return rest
      return { ...reserved, hold: rest.hold ?? reserved.hold, parent: { ...parent, starts: rest.starts } }
    })
  })
}

const ENDED = {
  revoked: "auth.api_key_revoked",
  expired: "auth.api_key_expired",
  "account-deleted": "auth.account_deleted",
  "account-frozen": "auth.account_frozen",
} as const satisfies Record<LateRefusal, FailureCode>

/** What a key says that makes no calls any more. */
export const endedKey = (refusal: LateRefusal): Failure => new Failure(ENDED[refusal])

type Whose = (failure: Failure) => Failure

/** A refusal by a key, as a child of it is told: without the key's limits. */
export const ofParent: Whose = ({ code, message, detail: { retryAfterS } }) =>
  new Failure(code, {
    ...retryAfter(retryAfterS),
    message: `${message} This is said of the key that this one is a child of.`,
  })

function reservedOf(reply: ReserveReply | Failure, whose: Whose): ReservedOfKeys | Failure {
  if (reply instanceof Failure) return reply
  if (reply.kind === "unavailable") return new Failure("dependency.database_unavailable")
  if (reply.kind === "refused") return whose(endedKey(reply.refusal))
  if (reply.kind === "reserved") return { hold: reply.hold, starts: reply.starts, parent: undefined }
  const code = reply.kind === "tokens-exceeded" ? "rate_limit.tpm_exceeded" : "quota.key_limit_exceeded"
  return whose(new Failure(code, retryAfter(reply.retryAfterS)))
}

/** Of a call that was let in and has waited: who ended its key meanwhile was told that none is made any more (decisions §13.8). */
export function refusalOfKeys(
  actors: Actors,
  { keyHash, secret, record: { parent } }: CallerKey & { readonly secret?: string | undefined },
): MaybePromise<Failure | undefined> {
  const look = { counted: false, origin: undefined }
  return andThen(actors.keys.count(keyHash, { ...look, secret }), (own) => {
    const refusal = lateRefusal(own, (failure) => failure)
    if (refusal !== undefined || parent === undefined) return refusal
    const looking = actors.keys.count(parent.keyHash, { ...look, secret: undefined })
    return andThen(looking, (its) => lateRefusal(its, ofParent))
  })
}

function lateRefusal(reply: CountReply | Failure, whose: Whose): Failure | undefined {
  if (reply instanceof Failure) return reply
  switch (reply.kind) {
    case "revoked":
    case "expired":
    case "account-deleted":
    case "account-frozen":
      return whose(endedKey(reply.kind))
    case "unknown":
    case "ended":
      return whose(endedKey("revoked"))
    case "moved":
    case "elsewhere":
    case "requests-exceeded":
    case "paused":
    case "active":
      return undefined
    default:
      return unreachable(reply)
  }
}

/** Somebody after them held less than they did. */
export function trimKeys(actors: Actors, { keyHash, record: { parent } }: CallerKey, requestId: string, hold: Micro) {
  actors.keys.trim(keyHash, requestId, hold)
  if (parent !== undefined) actors.keys.trim(parent.keyHash, requestId, hold)
}

/** Right also where nothing was taken. */
export function releaseKeys(actors: Actors, { keyHash, record: { parent } }: CallerKey, requestId: string): void {
  if (parent !== undefined) actors.keys.release(parent.keyHash, requestId)
  actors.keys.release(keyHash, requestId)
}

/** The keys of a call that was admitted. */
export interface PayingKeys {
  readonly keyHash: string
  readonly starts: PeriodStarts
  readonly parent: PayingParent | undefined
}

/** What their budgets pay of what the call costs: the key's, and of that the parent's. */
export function settleKeys(
  actors: Actors,
  { keyHash, starts, parent }: PayingKeys,
  usage: Omit<CallUsage, "starts">,
  held: Micro,
): MaybePromise<Micro> {
  return andThen(settleKey(actors, keyHash, { ...usage, starts }, held), (ofKey) => {
    if (parent === undefined) return ofKey
    const rest = { ...usage, actual: ofKey, starts: parent.starts }
    return andThen(settleKey(actors, parent.keyHash, rest, held), (paid) => {
      if (paid < ofKey) actors.keys.unsettle(keyHash, minus(ofKey, paid), starts)
      return paid
    })
  })
}

/** One that did not say in time is told, and pays what it held. */
const settleKey = (actors: Actors, keyHash: string, usage: CallUsage, held: Micro): MaybePromise<Micro> =>
  andThen(actors.keys.settle(keyHash, usage), (budgeted) => {
    if (!(budgeted instanceof Failure)) return budgeted
    const actual = smaller(usage.actual, held)
    actors.keys.tellSettled(keyHash, { ...usage, actual })
    return actual
  })

/** Settles without asking what the budgets pay. */
export function tellKeysSettled(
  actors: Actors,
  { keyHash, starts, parent }: PayingKeys,
  usage: Omit<CallUsage, "starts">,
): void {
  actors.keys.tellSettled(keyHash, { ...usage, starts })
  if (parent !== undefined) actors.keys.tellSettled(parent.keyHash, { ...usage, starts: parent.starts })
}

/** Takes back so much, which was not booked. */
export function unsettleKeys(actors: Actors, { keyHash, starts, parent }: PayingKeys, charge: Micro): void {
  actors.keys.unsettle(keyHash, charge, starts)
  if (parent !== undefined) actors.keys.unsettle(parent.keyHash, charge, parent.starts)
}

/** What one of a call's purses was charged. */
export interface ChargedPurse {
  readonly purse: string
  readonly charged: Charged
}

/** What can be held under all of them, at the most. */
export function holdOfBreakers(
  actors: Actors,
  purses: readonly string[],
  terms: HoldRequest,
): MaybePromise<Micro | Failure> {
  const [purse, ...others] = purses
  if (purse === undefined) return terms.target
  return andThen(actors.breakers.hold(purse, terms), (held) => {
    if (held instanceof Failure) return held
    if (held.kind === "held") return holdOfBreakers(actors, others, { ...terms, target: held.hold })
    if (held.kind === "unavailable") return new Failure("dependency.database_unavailable")
    return refusalOf(actors, purse, terms.least)
  })
}

async function refusalOf(actors: Actors, purse: string, least: Micro): Promise<Failure> {
  const outcome = await actors.breakers.trip(purse, least)
  if (outcome === "unavailable") return new Failure("dependency.database_unavailable")
  return outcome === "paused" ? new Failure("quota.key_paused") : crowded()
}

const crowded = (): Failure =>
  new Failure("gateway.capacity", {
    message: "Calls under way hold what may be spent within ten minutes; retry shortly.",
    retryAfterS: 1,
  })

/** A ceiling as a call would find it. */
export interface BreakerForecast extends PurseLook {
  /** Of the key, or of all keys of its account. */
  readonly of: "key" | "account"
  /** What is neither spent nor held. */
  readonly remaining: Micro
}

/** In the order in which they are asked. Nothing is leased, and nobody is paused. */
export async function forecastBreakers(actors: Actors, purses: readonly string[]): Promise<readonly BreakerForecast[]> {
  const looks = await Promise.all(purses.map((purse) => actors.breakers.look(purse)))
  return purses.flatMap((purse, index) => {
    const look = looks[index]
    if (look === undefined) return []
    const remaining = notNegative(minus(minus(look.ceiling, look.spent), look.held))
    return [{ ...look, remaining, of: ownerOf(purse).keyId === undefined ? "account" : "key" }]
  })
}

/** What it says to a call that needs more than remains: whom only calls under way keep from it is not paused. */
export const refusalOfBreaker = ({ ceiling, spent }: BreakerForecast, least: Micro): Failure =>
  minus(ceiling, spent) >= least ? crowded() : new Failure("quota.key_paused")

/** Charges each with what the one before it paid. Where one does not say what it paid, all is taken back. */
export function settleBreakers(
  actors: Actors,
  purses: readonly string[],
  requestId: string,
  actual: Micro,
  before: readonly ChargedPurse[] = [],
): MaybePromise<{ readonly payable: Micro; readonly charged: readonly ChargedPurse[] } | "unknown"> {
  const [purse, ...others] = purses
  if (purse === undefined) return { payable: actual, charged: before }
  return andThen(actors.breakers.settle(purse, requestId, actual), (charged) => {
    if (charged instanceof Failure) {
      releaseBreakers(actors, purses, requestId)
      unsettleBreakers(actors, before)
      return "unknown"
    }
    return settleBreakers(actors, others, requestId, charged.charge, [...before, { purse, charged }])
  })
}

export function trimBreakers(actors: Actors, purses: readonly string[], requestId: string, hold: Micro): void {
  for (const purse of purses) actors.breakers.trim(purse, requestId, hold)
}

/** Right also where nothing was held. */
export function releaseBreakers(actors: Actors, purses: readonly string[], requestId: string): void {
  for (const purse of purses) actors.breakers.release(purse, requestId)
}

/** Takes back what is over `paid`, which is nothing at first. */
export function unsettleBreakers(actors: Actors, charged: readonly ChargedPurse[], paid?: Micro): void {
  for (const { purse, charged: each } of charged) {
    const charge = paid === undefined ? each.charge : minus(each.charge, paid)
    if (charge > 0n) actors.breakers.unsettle(purse, { ...each, charge })
  }
}

/** What they are charged with, once the account has paid so much. */
export const paidOf = (charged: readonly ChargedPurse[], paid: Micro): readonly ChargedPurse[] =>
  charged.map(({ purse, charged: each }) => ({ purse, charged: { ...each, charge: paid } }))

/** What an account holds for a call. */
export type Held = Extract<HoldReply, { readonly kind: "held" }>

export const isHeld = (held: HoldReply | Failure): held is Held => !(held instanceof Failure) && held.kind === "held"

export function shortageOf(held: Exclude<HoldReply, Held> | Failure): Failure {
  if (held instanceof Failure) return held
  return new Failure(held.kind === "insufficient" ? "billing.insufficient_balance" : "dependency.database_unavailable")
}

/** Why the account cannot pay it: held and given back, because a purse that is short leases more before it refuses. */
export function probeAccount({ accounts }: Actors, id: string, terms: HoldRequest): MaybePromise<Failure | undefined> {
  return andThen(accounts.hold(id, terms), (held) => {
    accounts.release(id, terms.requestId)
    return isHeld(held) ? undefined : shortageOf(held)
  })
}
