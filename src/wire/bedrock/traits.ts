/**
 * What the families of models behind Converse take beside what all of them take (Bedrock user guide, "Supported models
 * and model features", "Prompt caching"; Nova user guide, "Extended thinking"). What is not known to be taken is not
 * sent: a field too many is a 400.
 */
import type { JsonObject } from "../../language/json.ts"
import type { Effort, Reasoning, Sampling } from "../../language/prompt.ts"
import { bedrockFamily } from "./model.ts"

export interface ConverseTraits {
  /** Takes cache points, in the system's text and in messages. */
  readonly caches: boolean
  /** Takes a tool result's status; otherwise an error is marked in its text. */
  readonly resultStatus: boolean
  /** Takes sealed thinking back. */
  readonly thinksOn: boolean
  /** What only this family is told. */
  readonly fields: (reasoning: Reasoning | undefined, sampling: Pick<Sampling, "topK">) => JsonObject
}

const OTHER: ConverseTraits = { caches: false, resultStatus: false, thinksOn: false, fields: () => ({}) }
const NOVA: ConverseTraits = { ...OTHER, caches: true, resultStatus: true }

export function converseTraits(model: string): ConverseTraits {
  const family = bedrockFamily(model)
  if (family === "nova") return { ...NOVA, fields: (_, sampling) => novaFields(sampling) }
  if (family === "nova-2") return { ...NOVA, fields: nova2Fields }
  if (family === "gpt-oss") return { ...OTHER, fields: gptOssFields }
  // Behind an ARN that names no model may be the vendor's, which seals its thinking; nobody else does.
  return { ...OTHER, thinksOn: model.startsWith("arn:") }
}

const novaFields = ({ topK }: Pick<Sampling, "topK">): JsonObject =>
  topK === undefined ? {} : { inferenceConfig: { topK } }

/** The highest effort forbids an answer limit, and there is none without here. */
function nova2Fields(reasoning: Reasoning | undefined, sampling: Pick<Sampling, "topK">): JsonObject {
  const effort = effortOf(reasoning)
  const asked = effort === undefined ? {} : { maxReasoningEffort: effort === "low" ? "low" : "medium" }
  return {
    ...novaFields(sampling),
    ...(effort !== undefined && { reasoningConfig: { type: "enabled", ...asked } }),
  }
}

function gptOssFields(reasoning: Reasoning | undefined): JsonObject {
  // It cannot be stopped from thinking; the least is the nearest.
  if (reasoning !== undefined && effortOf(reasoning) === undefined) return { reasoning_effort: "low" }
  const effort = effortOf(reasoning)
  return effort === undefined ? {} : { reasoning_effort: effort }
}

const THREE: Readonly<Record<Exclude<Effort, "none">, "low" | "medium" | "high">> = {
  minimal: "low",
  low: "low",
  medium: "medium",
  high: "high",
  xhigh: "high",
  max: "high",
}

/** One of three; undefined where no thinking is asked for. */
function effortOf(reasoning: Reasoning | undefined): "low" | "medium" | "high" | undefined {
  if (reasoning === undefined || !reasoning.enabled) return undefined
  const { effort = "medium" } = reasoning
  return effort === "none" ? undefined : THREE[effort]
}
