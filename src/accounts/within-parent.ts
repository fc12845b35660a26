/**
 * Whether what is said of a child lies inside its parent's limits. Whatever is said, the parent's hold for each call as they are then
 * (gateway/key-purses.ts): this refuses what could never be had. Micro-rupiah.
 */
import { isPartOf, readNetwork } from "../../actors/network.ts"
import type { Micro } from "../../actors/money/micro.ts"
import type { SpendingPeriod } from "../../actors/period.ts"
import { Failure } from "../failure/failure.ts"
import type { KeyChange } from "../store/api-keys.ts"
import type { KeyBudget, KeyRecord } from "../store/key-rows.ts"

type Parent = Pick<
  KeyRecord,
  | "requestsPerMinute"
  | "tokensPerMinute"
  | "budget"
  | "fallback"
  | "expiresAt"
  | "models"
  | "endpoints"
  | "networks"
  | "origins"
  | "maxRateMicro"
>

/** `budget` is what the child has, of which a change may say only the limit or the period. */
export function outsideParent(
  change: KeyChange,
  parent: Parent,
  budget: Pick<KeyBudget, "limitMicro" | "period"> | undefined,
): Failure | undefined {
  const {
    requestsPerMinute,
    tokensPerMinute,
    expiresAt,
    maxRateMicro,
    models,
    endpoints,
    networks,
    origins,
    fallback,
  } = change
  if (!most(requestsPerMinute, parent.requestsPerMinute)) {
    return outside("requests_per_minute", `at most ${parent.requestsPerMinute}`)
  }
  if (!most(tokensPerMinute, parent.tokensPerMinute)) {
    return outside("tokens_per_minute", `at most ${parent.tokensPerMinute}`)
  }
  const limit = mostOf(parent.budget, change.spendingPeriod ?? budget?.period)
  const wished = change.spendingLimitMicro === undefined ? budget?.limitMicro : change.spendingLimitMicro
  const isSaid = change.spendingLimitMicro !== undefined || change.spendingPeriod !== undefined
  if (isSaid && !most(wished, limit)) return outside("spending_limit_micro", `at most ${limit}`)
  if (!most(expiresAt?.getTime(), parent.expiresAt?.getTime())) {
    return outside("expires_at", `${parent.expiresAt?.toISOString()} or before`)
  }
  if (!listed(models, parent.models)) return outside("models", `of ${parent.models?.join(", ")}`)
  if (!listed(endpoints, parent.endpoints)) return outside("endpoints", `of ${parent.endpoints?.join(", ")}`)
  if (!areWithin(networks, parent.networks)) return outside("networks", `within ${parent.networks?.join(", ")}`)
  // Without a list no page may call, so a child's lies in none.
  if (!listed(origins, parent.origins ?? [])) return outside("origins", `of ${parent.origins?.join(", ") ?? "none"}`)
  if (!most(maxRateMicro, parent.maxRateMicro)) return outside("max_rate_micro", `at most ${parent.maxRateMicro}`)
  if (parent.fallback === "off" && fallback !== undefined && fallback !== "off") return outside("fallback", "'off'")
  return undefined
}

const most = <T extends number | bigint>(value: T | null | undefined, limit: T | null | undefined): boolean =>
  value === null || value === undefined || limit === null || limit === undefined || value <= limit

const listed = (values: readonly string[] | null | undefined, all: readonly string[] | null): boolean =>
  !values || all === null || values.every((value) => all.includes(value))

const lengths: Readonly<Record<SpendingPeriod, number>> = { daily: 1, monthly: 2, total: 3 }

/** A longer period has several of the parent's in it, and so may come to more. */
const mostOf = (parent: Parent["budget"], period: SpendingPeriod | undefined): Micro | undefined =>
  parent === undefined || period === undefined || lengths[period] > lengths[parent.period]
    ? undefined
    : parent.limitMicro

function areWithin(networks: readonly string[] | null | undefined, ofParent: readonly string[] | null): boolean {
  if (!networks || ofParent === null) return true
  const all = ofParent.flatMap((text) => readNetwork(text) ?? [])
  return networks.every((text) => {
    const network = readNetwork(text)
    return network !== undefined && isPartOf(network, all)
  })
}

const outside = (field: string, must: string): Failure =>
  new Failure("request.invalid", { message: `'${field}' must be ${must}: the key that it is a child of has no more.` })
