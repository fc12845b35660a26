/**
 * What a call takes of its key, and of the key's parent, if it is a child: tokens of their windows, and money of their budgets. The
 * parent is asked for what the child has granted, so that neither's budget is ever passed, on any number of processes. Micro-rupiah.
 */
import { andThen, type MaybePromise } from "../../actors/kernel/actor.ts"
import type { CallUsage, Reservation, ReserveReply } from "../../actors/key-command.ts"
import type { KeyRecord } from "../../actors/key-record.ts"
import type { PayingParent } from "../../actors/ledger.ts"
import { type Micro, minus, smaller } from "../../actors/money/micro.ts"
import type { PeriodStarts } from "../../actors/period.ts"
import { Failure } from "../failure/failure.ts"
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
    const reserved = reservedOf(own, "")
    if (reserved instanceof Failure || parent === undefined) return reserved
    const rest = { ...reservation, worst: reserved.hold ?? reservation.worst }
    return andThen(actors.keys.reserve(parent.keyHash, rest), (its) => {
      const ofParent = reservedOf(its, OF_PARENT)
      if (ofParent instanceof Failure) return ofParent
      return { ...reserved, hold: ofParent.hold ?? reserved.hold, parent: { ...parent, starts: ofParent.starts } }
    })
  })
}

const OF_PARENT = " It is that of the key that this one is a child of."

function reservedOf(reply: ReserveReply | Failure, whose: string): ReservedOfKeys | Failure {
  if (reply instanceof Failure) return reply
  if (reply.kind === "unavailable") return new Failure("dependency.database_unavailable")
  if (reply.kind === "reserved") return { hold: reply.hold, starts: reply.starts, parent: undefined }
  const code = reply.kind === "tokens-exceeded" ? "rate_limit.tpm_exceeded" : "quota.key_limit_exceeded"
  const { retryAfterS } = reply
  const failure = new Failure(code)
  return new Failure(code, {
    ...(whose !== "" && { message: failure.message + whose }),
    ...(retryAfterS !== undefined && { retryAfterS }),
  })
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
