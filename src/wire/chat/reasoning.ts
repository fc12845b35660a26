/**
 * Reasoning in a chat request: `reasoning_effort`, and the `thinking` object that vendors with a chat endpoint beside
 * their own format take there. The format itself knows no budget, so a budget is written as the effort that it buys.
 */
import type { JsonObject } from "../../language/json.ts"
import { present } from "../../language/json.ts"
import type { Effort, Reasoning } from "../../language/prompt.ts"
import { misshapen, readCount, readObject, shown } from "../../language/shape.ts"
import { Failure } from "../../failure/failure.ts"

const EFFORTS: readonly Effort[] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"]
const THINKING = ["enabled", "adaptive", "disabled"]

/** `limit` is the client's own answer limit, which a budget stays under. */
export function readReasoning(body: JsonObject, limit: number | undefined): Reasoning | undefined | Failure {
  const effort = readEffort(body.reasoning_effort)
  if (effort instanceof Failure) return effort
  const thinking = readObject(body.thinking, "thinking")
  if (thinking instanceof Failure) return thinking
  if (thinking === undefined && effort === undefined) return undefined
  if (thinking !== undefined && !THINKING.some((type) => type === thinking.type))
    return misshapen(`'thinking.type' is ${shown(thinking.type)}; it must be one of ${THINKING.join(", ")}.`)
  const budget = readCount(thinking ?? {}, "budget_tokens")
  if (budget instanceof Failure) return budget
  const enabled = thinking?.type !== "disabled" && effort !== "none"
  if (!enabled) return { enabled, effort: undefined, budgetTokens: undefined, visible: false }
  const budgetTokens = budget === undefined || limit === undefined ? budget : Math.min(budget, Math.max(limit - 1, 1))
  return { enabled, effort, budgetTokens, visible: true }
}

function readEffort(value: JsonObject[string]): Effort | undefined | Failure {
  if (!present(value)) return undefined
  const effort = EFFORTS.find((known) => known === value)
  return effort ?? misshapen(`'reasoning_effort' is ${shown(value)}; it must be one of ${EFFORTS.join(", ")}.`)
}

/** Undefined leaves it to the backend how much it reasons. */
export function chatEffort(reasoning: Reasoning | undefined): Effort | undefined {
  if (reasoning === undefined) return undefined
  if (!reasoning.enabled) return "none"
  return reasoning.effort ?? (reasoning.budgetTokens === undefined ? undefined : effortOf(reasoning.budgetTokens))
}

/** The budgets that coding agents ask for (4,000, 10,000 and 31,999 tokens) fall on the three steps. */
function effortOf(budgetTokens: number): Effort {
  if (budgetTokens < 4_096) return "low"
  return budgetTokens < 16_384 ? "medium" : "high"
}
