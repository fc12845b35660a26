/**
 * Which models of Bedrock are called how, and a messages request in the envelope of InvokeModel: the model stands in the
 * path, the version and the betas in the body, and what Bedrock does not know is a 400 there, so only what it is known to take travels. What is left out changes no
 * answer; docs/formats.md lists it. `system` and thinking blocks are kept as they are but for their cache marks.
 */
import { family, requestedBetas, withoutSystemTurns } from "../shared/betas.ts"
import { beginsWith, isObject, type Json, type JsonObject, notServed } from "../../language/json.ts"
import type { Failure } from "../../failure/failure.ts"
import type { Effort, Reasoning, Sampling } from "../../language/prompt.ts"

// A model of Bedrock by the name that the catalogue gives it: a model id, an inference profile's id, or an ARN. After a
// `#` stands the model's own id where the name does not tell it, as with an application inference profile's ARN. The
// vendor's models (Claude) are called in their own format by InvokeModel, all others by Converse.

type BedrockFamily = "claude" | "nova" | "nova-2" | "gpt-oss" | "other"

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

const VERSION = "bedrock-2023-05-31"

/** Fields of the body that travel as they are. */
const PLAIN = ["max_tokens", "stop_sequences", "temperature", "top_p", "top_k", "thinking"]
const OUTPUT = ["effort", "format"]
const OWN_TOOL = ["type", "name", "description", "input_schema", "cache_control", "strict"]
/** What a tool may say beside that, with the beta that makes it known. */
const BETA_TOOL = [
  ["defer_loading", "tool-search-tool-2025-10-19"],
  ["input_examples", "tool-examples-2025-10-29"],
  ["eager_input_streaming", "fine-grained-tool-streaming-2025-05-14"],
] as const

/** What a request asks for that Bedrock has no way to do: it fetches nothing. */
export function refuseInvoke(body: JsonObject): Failure | undefined {
  return contentOf(body).some(byAddress)
    ? notServed("Images and documents by address are not served for this model; send the data itself in base64.")
    : undefined
}

/** `anthropicBeta` is the client's header. */
export function invokeBody(body: JsonObject, anthropicBeta: string | null): JsonObject {
  const betas = acceptedBetas(requestedBetas(anthropicBeta).listed, body)
  const written: JsonObject = { anthropic_version: VERSION }
  if (betas.length > 0) written["anthropic_beta"] = [...betas]
  for (const field of PLAIN) if (body[field] !== undefined) written[field] = body[field]
  const output = outputConfig(body)
  if (output !== undefined) written["output_config"] = output
  if (betas.includes("context-management-2025-06-27") && isObject(body["context_management"]))
    written["context_management"] = body["context_management"]
  const { system, messages } = body
  if (system !== undefined) written["system"] = Array.isArray(system) ? system.map(marked) : system
  if (Array.isArray(messages)) {
    // System text in mid-conversation is refused for most models here.
    const objects = withoutSystemTurns(messages).filter(isObject)
    const whole = isObject(body["cache_control"]) ? cachedWhole(objects, body["cache_control"]) : objects
    written["messages"] = whole.map(message)
  }
  return { ...written, ...toolUse(body, betas) }
}

/** A mark on the request as a whole, which Bedrock does not know, is one on its last block. */
function cachedWhole(messages: readonly JsonObject[], mark: JsonObject): JsonObject[] {
  const last = messages.at(-1)
  const content = typeof last?.["content"] === "string" ? [{ type: "text", text: last["content"] }] : last?.["content"]
  const block = Array.isArray(content) ? content.at(-1) : undefined
  if (last === undefined || !Array.isArray(content) || !isObject(block)) return [...messages]
  const cached = [...content.slice(0, -1), { cache_control: mark, ...block }]
  return [...messages.slice(0, -1), { ...last, content: cached }]
}

/** The answer's schema also under the name that it had while it was new. */
function outputConfig({ output_config: config, output_format: format }: JsonObject): JsonObject | undefined {
  const written = isObject(config) ? only(config, OUTPUT) : {}
  if (isObject(format) && written["format"] === undefined) written["format"] = format
  return Object.keys(written).length > 0 ? written : undefined
}

const message = ({ role, content }: JsonObject): JsonObject => ({
  role,
  content: Array.isArray(content) ? content.map(marked) : content,
})

/** A block with a cache mark that says no more than Bedrock knows, and so within the result of a tool. */
function marked(block: Json): Json {
  if (!isObject(block)) return block
  const { cache_control: mark, content } = block
  const known = isObject(mark) ? { ...block, cache_control: only(mark, ["type", "ttl"]) } : block
  return block["type"] === "tool_result" && Array.isArray(content)
    ? { ...known, content: content.map((inner) => marked(inner)) }
    : known
}

/**
 * Without web search, which Bedrock does not run: it comes this far only from coding agents that offer it with every
 * request (decisions §8). A choice without tools would be refused.
 */
function toolUse({ tools, tool_choice: choice }: JsonObject, betas: readonly string[]): JsonObject {
  if (!Array.isArray(tools)) return {}
  const known = tools.filter(isObject).filter((tool) => family(tool) !== "web_search")
  if (known.length === 0) return {}
  return { tools: known.map((tool) => knownTool(tool, betas)), ...(choice !== undefined && { tool_choice: choice }) }
}

/** The vendor's own tools are told apart by their type, and travel with all that they say. */
function knownTool(tool: JsonObject, betas: readonly string[]): Json {
  const { allowed_callers: _, ...said } = tool
  if (family(tool) !== undefined) return marked(said)
  const unknown = unknownOfTools(betas)
  const more = BETA_TOOL.map(([field]) => field).filter((field) => !unknown.includes(field))
  return marked(only(tool, [...OWN_TOOL, ...more]))
}

/** What a tool may not say with these flags alone. */
export const unknownOfTools = (betas: readonly string[]): string[] =>
  BETA_TOOL.flatMap(([field, beta]) => (betas.includes(beta) ? [] : [field]))

const only = (object: JsonObject, fields: readonly string[]): JsonObject =>
  Object.fromEntries(fields.flatMap((field) => (object[field] === undefined ? [] : [[field, object[field]]])))

function contentOf({ messages }: JsonObject): JsonObject[] {
  const contents = Array.isArray(messages) ? messages.filter(isObject).map(({ content }) => content) : []
  const blocks = contents.flatMap((content) => (Array.isArray(content) ? content.filter(isObject) : []))
  const results = blocks.flatMap(({ content }) => (Array.isArray(content) ? content.filter(isObject) : []))
  return [...blocks, ...results]
}

const byAddress = ({ source }: JsonObject): boolean => isObject(source) && source["type"] === "url"

// The betas that Bedrock knows, out of those that a client asks for: one that it does not know is a 400 for the whole
// request. Coding agents send their vendor's betas to whatever gateway they are pointed at, so the others are left out.

/**
 * Bedrock user guide, "Anthropic Claude Messages API: request and response", and what agents were seen to use there. Not
 * those that cost more than a catalogue's rates: a longer window, and compaction, which is not in the counts.
 */
const TAKEN = new Set([
  "computer-use-2024-10-22",
  "computer-use-2025-01-24",
  "computer-use-2025-11-24",
  "token-efficient-tools-2025-02-19",
  "output-128k-2025-02-19",
  "interleaved-thinking-2025-05-14",
  "dev-full-thinking-2025-05-14",
  "fine-grained-tool-streaming-2025-05-14",
  "context-management-2025-06-27",
  "tool-search-tool-2025-10-19",
  "tool-examples-2025-10-29",
  "effort-2025-11-24",
])

/** What goes by other names there. */
const RENAMED: Readonly<Record<string, readonly string[]>> = {
  "advanced-tool-use-2025-11-20": ["tool-search-tool-2025-10-19", "tool-examples-2025-10-29"],
}

/** Whether a flag that a client asks for means something there, by whatever name. */
export const isTaken = (beta: string): boolean => TAKEN.has(beta) || Object.hasOwn(RENAMED, beta)

/** In the order asked for, each once. What is no beta any more with the vendor itself may still be one here. */
export function acceptedBetas(betas: readonly string[], body: JsonObject): readonly string[] {
  const { model, output_config: output, tools } = body
  const asked = [...betas]
  if (isObject(output) && output["effort"] !== undefined && typeof model === "string" && model.includes("opus-4-5"))
    asked.push("effort-2025-11-24")
  if (Array.isArray(tools) && tools.some((tool) => isObject(tool) && beginsWith(tool["type"], "tool_search_tool")))
    asked.push("tool-search-tool-2025-10-19")
  return [...new Set(asked.flatMap((beta) => RENAMED[beta] ?? [beta]))].filter((beta) => TAKEN.has(beta))
}
