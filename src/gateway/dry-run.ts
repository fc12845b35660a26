/**
 * Forecasts what a call would cost, and what would refuse it, if it were made now. Up to admission the code is that of a call; from
 * there on the key, the account and the model forecast. Nothing is forwarded, held, counted or written. Micro-rupiah.
 */
import type { KeyForecast, Origin } from "../../actors/key-record.ts"
import { larger, type Micro, smaller } from "../../actors/money/micro.ts"
import { affordableLimit, holdFrom, quote, type Quote } from "../../actors/money/price.ts"
import type { SlotsForecast } from "../../actors/slots.ts"
import { Failure, noCapacity, retryAfter } from "../failure/failure.ts"
import { authenticate, type Caller, KeyRefused } from "./authenticate.ts"
import type { GatewayPorts } from "./ports.ts"
import { quoteTerms } from "./admit.ts"
import { type CallContext, readAndPlan } from "./plan-call.ts"
import { type BreakerForecast, forecastBreakers, refusalOfBreaker } from "./purses.ts"
import { forecastRun, type RunForecast } from "./runs.ts"
import type { Candidate, FallbackChain } from "./candidates.ts"
import type { CallPlan } from "./parse-request.ts"

/** Each part is undefined where the call would be refused before it is known. */
export interface Forecast {
  readonly key: KeyForecast
  /** The call's run; undefined also where there is none of its name, and none would be made. */
  readonly run?: RunForecast | undefined
  /** The ceilings of ten minutes that the call is under. */
  readonly breakers?: readonly BreakerForecast[]
  readonly route: RouteForecast | undefined
  readonly headers: Readonly<Record<string, string>>
  /** The first error that would refuse it. */
  readonly refusal: Failure | undefined
}

/** The forecast for the first model of the chain whose window fits the prompt, and for those after it. */
interface RouteForecast {
  readonly model: string
  /** Those that may answer in its place, in order. */
  readonly others: readonly string[]
  /** As it is estimated. */
  readonly inputTokens: number
  readonly mostInputTokens: number
  /** The answer limit that would be forwarded, of each answer asked for. */
  readonly answerLimit: number
  /** What has to be there. */
  readonly least: Micro
  /** Undefined where there is not enough. */
  readonly hold: Micro | undefined
  /** By the estimate of the input, at whichever model costs most; where there is not enough, as if there were. */
  readonly most: Micro
  readonly slots: SlotsForecast
  /** Whether it would wait for a slot. */
  readonly waits: boolean
}

/** The context of a dry run. `available`: the money of its account that is neither spent nor held. */
export interface DryRunContext extends CallContext {
  readonly available: Micro
}

/**
 * Whose key it is, or what refuses it whatever is asked: as of a call, which is counted before it is looked at. That a window is
 * full is said here only of a key whose account is closed to it; of all others the forecast says so, with everything else.
 */
export async function authenticateDryRun(
  actors: GatewayPorts["actors"],
  headers: Headers,
  origin: Origin,
): Promise<Caller | Failure> {
  const caller = await authenticate(actors, headers, origin, false)
  if (!(caller instanceof KeyRefused) || !isClosed(caller)) return caller
  const key = await actors.keys.forecast(caller.keyHash, 0)
  const refusal = key instanceof Failure ? key : requestsRefused(key)
  return refusal === undefined ? caller : new KeyRefused(refusal, caller)
}

/** Whoever has a key elsewhere than it is meant for is told nothing, nor is one whose key is none any more. */
const isClosed = ({ status, code }: Failure): boolean => status === 403 && code !== "auth.key_not_allowed"

/** Of a refusal that a report tells, and nothing else. */
export const isReported = (caller: Failure): caller is KeyRefused =>
  caller instanceof KeyRefused && (isClosed(caller) || caller.code === "rate_limit.rpm_exceeded")

export async function forecast(context: DryRunContext): Promise<Forecast | Failure> {
  const { ports, caller } = context
  const planned = await readAndPlan(context, async (plan, chain, release) => {
    using _ = { [Symbol.dispose]: release }
    return await forecastPlan(context, plan, chain)
  })
  if (!(planned instanceof Failure)) return planned
  const key = await ports.actors.keys.forecast(caller.keyHash, context.plan?.request.inputTokens ?? 0)
  if (key instanceof Failure) return key
  return { key, route: undefined, headers: planned.detail.headers ?? {}, refusal: requestsRefused(key) ?? planned }
}

async function forecastPlan(context: DryRunContext, plan: CallPlan, chain: FallbackChain): Promise<Forecast | Failure> {
  const { ports, caller, available } = context
  const { first } = chain
  const terms = quoteTerms(ports, plan, first)
  const quoted = quote(terms)
  const tokens = plan.request.inputTokens + quoted.minimalTokens
  const key = await ports.actors.keys.forecast(caller.keyHash, tokens)
  if (key instanceof Failure) return key
  const slots = await slotsOf(context, first)
  if (slots instanceof Failure) return slots
  const waits = slots.waits || !first.members.hasCapacityFor(tokens)
  const { run, refusal: ofRun } = (context.run && (await forecastRun(ports.actors, context.run))) ?? {}
  const breakers = await forecastBreakers(ports.actors, caller.record.breakers ?? [])
  const funds = { budget: key.view.budget?.remaining, run: run?.remaining, breakers, available }
  const hold = holdOf(quoted, funds)
  const isHeld = typeof hold === "bigint"
  const { others, most } = isHeld
    ? await forecastFallbacks(context, plan, chain, { hold, funds })
    : { others: [], most: quoted.worst }
  const route: RouteForecast = {
    model: first.offer.model.id,
    others,
    inputTokens: plan.request.inputTokens,
    mostInputTokens: terms.mostInputTokens ?? terms.inputTokens,
    answerLimit: isHeld ? affordableLimit(hold, quoted) : quoted.answerLimit,
    least: quoted.least,
    hold: isHeld ? hold : undefined,
    most,
    slots: slots.model,
    waits,
  }
  const refusal =
    requestsRefused(key) ??
    (key.tokens && new Failure("rate_limit.tpm_exceeded", retryAfter(key.tokens.retryAfterS))) ??
    (hold === "budget" ? new Failure("quota.key_limit_exceeded", retryAfter(key.budgetEndsInS)) : undefined) ??
    ofRun ??
    (hold === "run" ? new Failure("quota.run_limit_exceeded") : undefined) ??
    (typeof hold === "object" ? refusalOfBreaker(hold, quoted.least) : undefined) ??
    (hold === "balance" ? new Failure("billing.insufficient_balance") : undefined) ??
    (slots.isFull || (waits && ports.limits.capacityWaitMs <= 0) ? noCapacity() : undefined)
  return { key, run, breakers, route, headers: {}, refusal }
}

const requestsRefused = ({ requests }: KeyForecast): Failure | undefined =>
  requests && new Failure("rate_limit.rpm_exceeded", { retryAfterS: requests.retryAfterS ?? 1 })

interface Funds {
  /** What is left of the key's budget; undefined without one. */
  readonly budget: Micro | undefined
  /** The same of its run. */
  readonly run: Micro | undefined
  readonly breakers: readonly BreakerForecast[]
  readonly available: Micro
}

/** As the key, the run, the breakers and then the account would hold it, or who of them has not enough. */
function holdOf(
  { worst, least }: Quote,
  { budget, run, breakers, available }: Funds,
): Micro | "budget" | "run" | BreakerForecast | "balance" {
  const ofKey = budget === undefined ? worst : holdFrom(budget, worst, least)
  if (ofKey === undefined) return "budget"
  let target = run === undefined ? ofKey : holdFrom(run, ofKey, least)
  if (target === undefined) return "run"
  for (const breaker of breakers) {
    target = holdFrom(breaker.remaining, target, least)
    if (target === undefined) return breaker
  }
  return holdFrom(available, target, least) ?? "balance"
}

/** Any model after the first may answer where the ones before it throttle; one that cannot be paid for is passed over. */
async function forecastFallbacks(
  { ports }: DryRunContext,
  plan: CallPlan,
  chain: FallbackChain,
  { hold, funds }: { readonly hold: Micro; readonly funds: Funds },
): Promise<{ readonly others: readonly string[]; readonly most: Micro }> {
  const mostAt = (candidate: Candidate, held: Micro): Micro => {
    const terms = quoteTerms(ports, plan, candidate)
    const { worst } = quote({ ...terms, clientLimit: affordableLimit(held, quote(terms)) })
    // What the input comes to beyond the hold is taken from what is still there.
    const { available, budget = available, run = available, breakers } = funds
    const left = [available, budget, run, ...breakers.map(({ remaining }) => remaining)]
    return left.reduce(smaller, worst)
  }
  const others: string[] = []
  let most = mostAt(chain.first, hold)
  for (let next = await chain.next(); next !== undefined; next = await chain.next()) {
    const held = holdOf(quote(quoteTerms(ports, plan, next)), funds)
    if (typeof held !== "bigint") continue
    others.push(next.offer.model.id)
    most = larger(most, mostAt(next, held))
  }
  return { others, most }
}

/** Of the model, and of the whole gateway, of which nobody is told how many are taken. */
async function slotsOf(
  { ports: { actors }, caller }: DryRunContext,
  { offer: { model } }: Candidate,
): Promise<{ readonly model: SlotsForecast; readonly waits: boolean; readonly isFull: boolean } | Failure> {
  const { accountId, keyId } = caller.record
  const [ofModel, ofGate] = await Promise.all([
    actors.models.forecast(model.id, { accountId, keyId }),
    actors.gate.forecast({ accountId, keyId }),
  ])
  if (ofModel instanceof Failure) return ofModel
  if (ofGate instanceof Failure) return ofGate
  const kinds = [ofModel.kind, ofGate.kind]
  return { model: ofModel, waits: kinds.some((kind) => kind !== "acquired"), isFull: kinds.includes("full") }
}
