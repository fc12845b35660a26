/**
 * Which models of a chain may answer for the one that was asked for (decisions §13.6). No answer is dearer than asked for, unless
 * the key says that any will do; what the key allows a call may narrow by a header, and widen where the key follows chains at all.
 */
import type { Fallback } from "../../actors/key.ts"
import type { Rates } from "../../actors/money/price.ts"
import type { Offer } from "../catalogue/live.ts"
import { Failure } from "../failure/failure.ts"

/** From the narrowest. */
const values: readonly Fallback[] = ["off", "never_dearer", "any"]

export function fallbackOf(ofKey: Fallback, headers: Headers): Fallback | Failure {
  const header = headers.get("x-fallback")?.trim() ?? ""
  if (header === "") return ofKey
  const wanted = values.find((value) => value === header)
  if (wanted === undefined) {
    return new Failure("request.invalid", { message: `'X-Fallback' must be one of: ${values.join(", ")}.` })
  }
  return ofKey === "off" ? ofKey : wanted
}

/** Whether a model of the chain may answer for the asked one, at the rates in force. */
export const mayAnswer = (fallback: Fallback, asked: Offer, other: Offer): boolean =>
  fallback === "any" || (fallback === "never_dearer" && !isDearer(other.price.rates, asked.price.rates))

const buckets: readonly (keyof Rates)[] = ["input", "output", "cacheRead", "cacheWrite"]

/** A call's tokens are known when it has ended, so each bucket counts by itself. */
const isDearer = (rates: Rates, than: Rates): boolean => buckets.some((bucket) => rates[bucket] > than[bucket])

/** What a rerouted answer says in its head. */
export const rerouteHeaders = (asked: Offer, answered: Offer | undefined): Record<string, string> =>
  answered === undefined || answered.model.id === asked.model.id
    ? {}
    : { "X-Model": answered.model.id, "X-Rerouted-From": asked.model.id }
