/** What an operator may make of a model, by the same rules that the catalogue file is held to. */
import { inForce, type Rates } from "../../../actors/money/price.ts"
import { type Jump, jumps, LARGEST_STEP } from "../../catalogue/jump.ts"
import type { PriceVersion } from "../../catalogue/model.ts"
import { isRouting } from "../../language/routing.ts"
import { Failure } from "../../failure/failure.ts"
import type { StoredModel } from "../../store/operator/models.ts"
import { refused } from "../route.ts"

/** A chain is the whole chain: known models on sale, none twice, none itself, each on an endpoint of the model's own. */
export function chainProblem(model: StoredModel, chain: readonly string[], all: readonly StoredModel[]) {
  for (const [index, id] of chain.entries()) {
    const target = all.find((one) => one.model === id)
    const at = `fallback[${index}]`
    if (target === undefined || target.target !== null) return refused(at, "the id of a model on sale")
    if (id === model.model || chain.indexOf(id) !== index) return refused(at, "another model than those before it")
    if (!target.endpoints.some((endpoint) => model.endpoints.includes(endpoint)))
      return refused(at, `a model that is served on ${model.endpoints.join(" or ")}`)
  }
  return undefined
}

/** No field that sends a call elsewhere, whatever its backend knows. */
export function passProblem(pass: readonly string[]) {
  const index = pass.findIndex(isRouting)
  return index < 0 ? undefined : refused(`pass[${index}]`, "a field that routes nothing")
}

/** Whoever calls the retired id must not find an endpoint closed. */
export function targetProblem(model: StoredModel, targetId: string, all: readonly StoredModel[]) {
  const target = all.find((one) => one.model === targetId)
  if (target === undefined || target.target !== null) return refused("target", "the id of a model on sale")
  if (target === model) return refused("target", "another model")
  return model.endpoints.every((endpoint) => target.endpoints.includes(endpoint))
    ? undefined
    : refused("target", `a model that is served on ${model.endpoints.join(" and ")}`)
}

export interface Step {
  /** In force when the new price begins. */
  readonly from: PriceVersion | undefined
  readonly jumps: readonly Jump[]
}

export function stepTo(rates: Rates, effectiveAt: Date, versions: readonly PriceVersion[]): Step {
  const from = inForce(versions, effectiveAt.getTime())
  return { from, jumps: from === undefined ? [] : jumps(from.rates, rates) }
}

export function jumpProblem(found: readonly Jump[]): Failure {
  const steps = found.map((jump) => {
    const { name, from, to } = jumpJson(jump)
    return `${name} from ${from} to ${to} (${Number.isFinite(jump.factor) ? `${jump.factor} times` : "no factor"})`
  })
  const message = `A rate changes by more than ${LARGEST_STEP} times: ${steps.join(", ")}.`
  return new Failure("request.invalid", { message, hint: "Send 'confirm_jump': true if it is meant." })
}

const names = {
  input: "input_micro",
  output: "output_micro",
  cacheRead: "cache_read_micro",
  cacheWrite: "cache_write_micro",
} as const

export const rateNames = Object.values(names)

/** The factor of a rate that comes from nothing, or goes to nothing, is null. */
export const jumpJson = ({ rate, from, to, factor }: Jump) => ({
  name: names[rate],
  from: Number(from),
  to: Number(to),
  factor: Number.isFinite(factor) ? factor : null,
})
