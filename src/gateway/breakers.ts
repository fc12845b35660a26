/**
 * The ceilings of ten minutes that a call is under: its key's, and its account's. Each is a purse, which holds for a call and is
 * charged with it (actors/account.ts), so that what is spent and held of any ten minutes never passes it, on any number of processes.
 * Who is refused by one is paused (store/breaker-purses.ts).
 */
import type { Charged } from "../../actors/account.ts"
import { andThen, type MaybePromise } from "../../actors/kernel/actor.ts"
import { type Micro, minus, notNegative } from "../../actors/money/micro.ts"
import type { HoldTerms } from "../../actors/waiting-holds.ts"
import { Failure } from "../failure/failure.ts"
import { ownerOf, type PurseLook } from "../store/breaker-purses.ts"
import type { Actors } from "./actors.ts"

/** What one of a call's purses was charged. */
export interface ChargedPurse {
  readonly purse: string
  readonly charged: Charged
}

/** What can be held under all of them, at the most. */
export function holdOfBreakers(
  actors: Actors,
  purses: readonly string[],
  terms: HoldTerms,
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
