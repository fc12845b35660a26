/**
 * The counts of an answer, in tokens, and the ways in which a backend can tell them wrongly.
 */
import type { Json, JsonObject } from "../language/json.ts"
import type { UsageReport } from "./script.ts"

/** Disjoint buckets, `reasoning` being part of `output`. Each format adds them up as its vendor does. */
export interface Usage {
  readonly report: UsageReport
  readonly input: number
  readonly cached: number
  readonly written: number
  readonly output: number
  readonly reasoning: number
}

const asIs = (count: number): Json => count

/** A count as it is told: a hostile report twists every number that money could depend on. */
const tellings: Record<UsageReport, (count: number) => Json> = {
  honest: asIs,
  none: asIs,
  null: asIs,
  negative: (count) => -count - 1,
  fraction: (count) => count + 0.5,
  string: String,
  huge: () => 1e18,
}

export const told = (count: number, report: UsageReport): Json => tellings[report](count)

/** A usage object under its key, or none, or null. */
export const usageField = (report: UsageReport, usage: () => JsonObject): { usage?: JsonObject | null } => {
  if (report === "none") return {}
  return { usage: report === "null" ? null : usage() }
}
