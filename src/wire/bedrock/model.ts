/**
 * A model of Bedrock by the name that the catalogue gives it: a model id, an inference profile's id, or an ARN. After a
 * `#` stands the model's own id where the name does not tell it, as with an application inference profile's ARN. The
 * vendor's models (Claude) are called in their own format by InvokeModel, all others by Converse.
 */
import type { JsonObject } from "../../language/json.ts"
import type { Effort, Reasoning, Sampling } from "../../language/prompt.ts"

export type BedrockFamily = "claude" | "nova" | "nova-2" | "gpt-oss" | "other"

export function bedrockFamily(name: string): BedrockFamily {
  if (name.includes("anthropic.")) return "claude"
  if (name.includes("amazon.nova")) return name.includes("amazon.nova-2") ? "nova-2" : "nova"
  return name.includes("openai.gpt-oss") ? "gpt-oss" : "other"
}

export type BedrockOperation = "invoke" | "converse"

const STREAMED = { invoke: "invoke-with-response-stream", converse: "converse-stream" } as const

/** Where the model is called. Its id is one segment of the path, whatever it holds. */
export function bedrockPath(name: string, operation: BedrockOperation, stream: boolean): string {
  const [id = name] = name.split("#")
  return `/model/${escaped(id)}/${stream ? STREAMED[operation] : operation}`
}

/** All but the unreserved characters of RFC 3986, as the signature has it. */
const escaped = (id: string): string =>
  encodeURIComponent(id).replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)

// What the families of models behind Converse take beside what all of them take (Bedrock user guide, "Supported models
// and model features", "Prompt caching"; Nova user guide, "Extended thinking"). What is not known to be taken is not
// sent: a field too many is a 400.

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
