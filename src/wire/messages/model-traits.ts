/**
 * What a messages backend's models take, by the backend's name of the model. The vendor's generations differ in what
 * they refuse with a 400: thinking budgets, efforts, forced tools (platform.claude.com, "Thinking", "Effort" and the
 * migration guides of 4.6 to 5.5). A name that is none of the vendor's is taken for a compatible backend, which knows
 * the format as it was first published; a vendor's model that is not known yet is taken for one of the newest.
 */
import type { Effort } from "../../language/prompt.ts"

export interface ModelTraits {
  /** `enabled` with a budget, or `adaptive` with an effort beside it. */
  readonly thinking: "budget" | "adaptive"
  /**
   * How no thinking is asked for: by leaving it out, by saying so, by the least that there is, or not at all, where a
   * low effort is as near as one comes.
   */
  readonly off: "omit" | "disabled" | "between_tools" | "never"
  /** The efforts that are taken, rising; none where the model has no efforts. */
  readonly efforts: readonly Effort[]
  /** Thinking is sealed but not shown unless asked for. */
  readonly hidesThinking: boolean
  /** A tool may be demanded (where thinking is not). */
  readonly forcesTools: boolean
  /** A last turn of the assistant is gone on with; others refuse it. */
  readonly prefill: boolean
  /** Temperature and top_p may stand side by side. */
  readonly bothSamplers: boolean
}

const FIRST: ModelTraits = {
  thinking: "budget",
  off: "disabled",
  efforts: [],
  hidesThinking: false,
  forcesTools: true,
  prefill: true,
  bothSamplers: true,
}
const GENERATION_4_1: ModelTraits = { ...FIRST, bothSamplers: false }
const GENERATION_4_6: ModelTraits = {
  ...GENERATION_4_1,
  thinking: "adaptive",
  off: "omit",
  efforts: ["low", "medium", "high", "max"],
  prefill: false,
}
const GENERATION_4_7: ModelTraits = {
  ...GENERATION_4_6,
  efforts: ["low", "medium", "high", "xhigh", "max"],
  hidesThinking: true,
}
const GENERATION_5: ModelTraits = { ...GENERATION_4_7, off: "disabled" }
/** Always thinks, and so never obeys a demand for a tool. */
const ALWAYS_THINKS: ModelTraits = { ...GENERATION_4_7, off: "never", forcesTools: false }
const SONNET_5_5: ModelTraits = { ...ALWAYS_THINKS, off: "between_tools" }

/** Family and version, in either order; a date is no version. */
const NAMED = /claude-(?<family>[a-z]+)-(?<version>\d{1,2}(?:[-.]\d{1,2})?)(?!\d)/
const NAMED_OLD = /claude-(?:v?[123](?!\d)|instant)/

export function modelTraits(model: string): ModelTraits {
  const name = model.toLowerCase()
  if (!name.includes("claude") || NAMED_OLD.test(name)) return FIRST
  const { family, version } = NAMED.exec(name)?.groups ?? {}
  if (version === undefined) return ALWAYS_THINKS
  const [major = 0, minor = 0] = version.split(/[-.]/).map(Number)
  const release = major * 100 + minor
  if (release < 401) return FIRST
  if (release < 406) return GENERATION_4_1
  if (release < 407) return GENERATION_4_6
  if (release < 500) return GENERATION_4_7
  if (family === "haiku" && release <= 505) return GENERATION_5
  if (release < 505 && (family === "opus" || family === "sonnet")) return GENERATION_5
  return family === "sonnet" && release === 505 ? SONNET_5_5 : ALWAYS_THINKS
}

/** The effort as this model takes it: the nearest below the one asked for, or the least; undefined where it has none. */
export function nearestEffort(traits: ModelTraits, asked: Effort): Effort | undefined {
  const wanted = RISING.indexOf(asked)
  return traits.efforts.findLast((effort) => RISING.indexOf(effort) <= wanted) ?? traits.efforts[0]
}

const RISING: readonly Effort[] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"]
