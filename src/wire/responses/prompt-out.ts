/**
 * A prompt as the body for a responses backend. Nothing is stored there (decisions §8), so thinking comes back only
 * where its encrypted form is asked for. What is left out, and why that does no harm, is in docs/formats.md.
 */
import { unreachable } from "../../../actors/unreachable.ts"
import { Failure } from "../../failure/failure.ts"
import { isObject, type Json, type JsonObject, present, withProperties } from "../../language/json.ts"
import {
  BILLING_HEADER,
  type Effort,
  type OutputFormat,
  type Prompt,
  type Reasoning,
  type Tool,
  type ToolChoice,
} from "../../language/prompt.ts"
import { answerLimit, type ModelRequest, type Target } from "../../language/request.ts"
import type { EncodedPrompt } from "../format.ts"
import { serviceTier } from "../body.ts"
import { mostSearches, type ToolNames, toolNames } from "../shared/tools.ts"
import { joined } from "./items-in.ts"
import { developerItem, encodeItems, readSeal } from "./items-out.ts"
import { TOOL_NAMES, WEB_SEARCH } from "./tools.ts"

/**
 * The backend refuses a smaller limit, which clients write when they try out whether a model is there. It is raised, and
 * `BackendSide.minAnswerTokens` tells admission to hold for it.
 */
export const MIN_ANSWER_TOKENS = 16

const LONGEST_SCHEMA_NAME = 64
/** Budgets in tokens from which an effort is meant, largest first. */
const EFFORT_OF_BUDGET: readonly (readonly [leastTokens: number, effort: Effort])[] = [
  [16_384, "high"],
  [4_096, "medium"],
  [0, "low"],
]

export function encodePrompt(prompt: Prompt, request: ModelRequest, target: Target): EncodedPrompt | Failure {
  if (prompt.stopSequences.length > 0)
    return notExpressible(
      "Stop sequences are not served for this model.",
      "Leave them out, and cut the answer yourself.",
    )
  if (request.choices > 1)
    return notExpressible("This model gives one answer a call.", "Leave 'n' out, and make as many calls.")
  const names = toolNames(prompt, TOOL_NAMES)
  const tools = encodeTools(prompt, names)
  if (tools instanceof Failure) return tools
  const { temperature, topP } = prompt.sampling
  const key = prompt.cacheKey ?? request.cacheKey
  const body: JsonObject = {
    model: target.model,
    ...conversation(prompt, names),
    ...tools,
    ...(temperature === undefined ? {} : { temperature }),
    ...(topP === undefined ? {} : { top_p: topP }),
    ...encodeText(prompt, target),
    ...(prompt.reasoning ? encodeReasoning(prompt.reasoning) : {}),
    service_tier: serviceTier("responses", request.body),
    ...(key === undefined ? {} : { prompt_cache_key: fittingKey(key) }),
    ...(request.endUser === undefined ? {} : { safety_identifier: request.endUser }),
  }
  for (const parameter of target.strip) delete body[parameter]
  return ({ maxOutputTokens, stream }) => ({
    ...body,
    max_output_tokens: Math.max(MIN_ANSWER_TOKENS, answerLimit(request, { maxOutputTokens })),
    store: false,
    ...(stream && { stream: true }),
  })
}

/** Backends refuse a longer one, and only compare it. */
const LONGEST_CACHE_KEY = 64

const fittingKey = (key: string): string =>
  key.length <= LONGEST_CACHE_KEY ? key : new Bun.CryptoHasher("sha256").update(key).digest("base64url")

const notExpressible = (message: string, hint: string): Failure =>
  new Failure("request.unsupported_feature", { message, hint })

/**
 * Instructions go into the input where that is needed: it may not be empty, and for an answer in any JSON the backend
 * looks for the word "JSON" in the input alone, while clients say it in their system prompt.
 */
function conversation({ instructions: all, turns, output }: Prompt, names: ToolNames): JsonObject {
  const instructions = all.filter(({ text }) => !text.startsWith(BILLING_HEADER))
  const input = encodeItems(turns, names)
  if (input.length === 0 || output?.kind === "json") return { input: [...developerItem(instructions), ...input] }
  const text = instructions.map(({ text }) => text).join("\n\n")
  return text === "" ? { input } : { instructions: text, input }
}

/**
 * What of a conversation a backend of this format takes: not the reasoning that it could not read, which is what another
 * backend sealed, or what it was not asked to seal. Of the latter it would look for what it keeps, and nothing is kept
 * there. Nor would it find the ids of the items that followed. An input of nothing else stays, for the backend to refuse.
 */
export function readableItems(input: Json | undefined): Json | undefined {
  if (!Array.isArray(input)) return input
  const readable = input.filter(isReadable)
  if (readable.length === input.length || readable.length === 0) return input
  return readable.map((item) => (isObject(item) ? withoutId(item) : item))
}

function isReadable(item: Json): boolean {
  if (!isObject(item) || item["type"] !== "reasoning") return true
  const { encrypted_content: sealed, content } = item
  if (typeof sealed === "string" && sealed !== "") return readSeal(sealed)?.by === "responses"
  return joined(content) !== ""
}

/** Of these the id may be left out. */
const NAMELESS: readonly unknown[] = ["message", "function_call", "custom_tool_call"]

function withoutId(item: JsonObject): JsonObject {
  if (!present(item["id"]) || !NAMELESS.includes(item["type"] ?? "message")) return item
  const { id: _, ...others } = item
  return others
}

/** A model that does not take a verbosity has it in its `strip` by the name that chat clients know. */
function encodeText({ output, verbosity }: Prompt, { strip }: Target): JsonObject {
  const text: JsonObject = output ? { format: encodeOutput(output) } : {}
  if (verbosity !== undefined && !strip.includes("verbosity")) text["verbosity"] = verbosity
  return Object.keys(text).length === 0 ? {} : { text }
}

function encodeOutput(output: OutputFormat): JsonObject {
  if (output.kind === "json") return { type: "json_object" }
  const { name, description, schema, strict } = output
  return {
    type: "json_schema",
    name: schemaName(name),
    ...(description === undefined ? {} : { description }),
    schema,
    ...(strict === undefined ? {} : { strict }),
  }
}

/** Required here, and of few characters; it means nothing to the answer. */
const schemaName = (name = ""): string =>
  name.replaceAll(/[^A-Za-z0-9_-]/g, "_").slice(0, LONGEST_SCHEMA_NAME) || "answer"

function encodeReasoning({ enabled, effort, budgetTokens, visible }: Reasoning): JsonObject {
  if (!enabled) return { reasoning: { effort: "none" } }
  const meant = effort ?? effortOf(budgetTokens)
  return {
    reasoning: { ...(meant ? { effort: meant } : {}), ...(visible ? { summary: "auto" } : {}) },
    include: ["reasoning.encrypted_content"],
  }
}

const effortOf = (budgetTokens: number | undefined): Effort | undefined =>
  budgetTokens === undefined ? undefined : EFFORT_OF_BUDGET.find(([least]) => budgetTokens >= least)?.[1]

// The tools of a prompt, as a responses backend takes them.

function encodeTools({ tools, toolChoice, parallelTools }: Prompt, names: ToolNames): JsonObject | Failure {
  const encoded: JsonObject[] = []
  for (const tool of tools) {
    const one = encodeTool(tool, names)
    if (one instanceof Failure) return one
    encoded.push(one)
  }
  if (encoded.length === 0) return {}
  const search = tools.find((tool) => tool.type === "web-search")
  return {
    tools: encoded,
    ...(toolChoice ? { tool_choice: encodeChoice(toolChoice, tools, names) } : {}),
    ...(parallelTools === undefined ? {} : { parallel_tool_calls: parallelTools }),
    // The search is the only tool that a backend runs by itself here, so the one bound means the same as the other.
    ...(search && { max_tool_calls: mostSearches(search.options["max_uses"]) }),
  }
}

function encodeTool(tool: Tool, names: ToolNames): JsonObject | Failure {
  switch (tool.type) {
    case "function": {
      const { description, parameters, strict = false } = tool
      // Left out, `strict` would mean true, and a backend would refuse a schema that does not follow its rules.
      return {
        type: "function",
        name: names.written(tool.name),
        ...(present(description) ? { description } : {}),
        parameters: withProperties(parameters),
        strict,
      }
    }
    case "custom": {
      const { description, grammar } = tool
      return {
        type: "custom",
        name: names.written(tool.name),
        ...(present(description) ? { description } : {}),
        ...(grammar ? { format: grammar } : {}),
      }
    }
    case "web-search":
      return encodeSearch(tool.options)
    default:
      return unreachable(tool)
  }
}

function encodeSearch(options: JsonObject): JsonObject | Failure {
  const { allowed_domains: allowed, blocked_domains: blocked, user_location: location } = options
  if (!isEmptyList(blocked))
    return new Failure("request.unsupported_feature", {
      message: "This model's search cannot leave domains out.",
      hint: "Name the domains to search in 'allowed_domains' instead of 'blocked_domains'.",
    })
  const tool: JsonObject = { type: WEB_SEARCH }
  if (!isEmptyList(allowed)) tool["filters"] = { allowed_domains: allowed }
  if (isObject(location)) {
    // Chat writes the place within an `approximate` of its own.
    const { approximate, ...others } = location
    tool["user_location"] = isObject(approximate) ? { ...others, ...approximate } : location
  }
  for (const field of ["search_context_size", "external_web_access"])
    if (present(options[field])) tool[field] = options[field]
  return tool
}

const isEmptyList = (list: Json | undefined): boolean => !present(list) || (Array.isArray(list) && list.length === 0)

function encodeChoice(choice: ToolChoice, tools: readonly Tool[], names: ToolNames): Json {
  if (choice.kind !== "tool") return choice.kind
  const chosen = tools.find((tool) => tool.type !== "web-search" && tool.name === choice.name)
  if (chosen === undefined && choice.name === WEB_SEARCH) return { type: WEB_SEARCH }
  return { type: chosen?.type ?? "function", name: names.written(choice.name) }
}
