/**
 * A client's chat request into the neutral language. What has no place there is refused, or harmless and listed in
 * docs/formats.md; the request's shape, as far as admission needed it, has been checked (format.ts). The older `functions`
 * are tools of which an answer calls at most one.
 */
import { Failure } from "../../failure/failure.ts"
import {
  beginsWith,
  filled,
  isObject,
  type Json,
  type JsonObject,
  misshapen,
  notServed,
  present,
  readCount,
  readObject,
  readObjects,
  shown,
} from "../../language/json.ts"
import {
  type Effort,
  EFFORTS,
  type OutputFormat,
  type Prompt,
  type Reasoning,
  type Sampling,
  type Tool,
  type ToolChoice,
  type Verbosity,
} from "../../language/prompt.ts"
import type { ModelRequest } from "../../language/request.ts"
import { cacheMark, readConversation } from "./messages-in.ts"

export function decodePrompt(request: ModelRequest): Prompt | Failure {
  const { body } = request
  if (request.choices > 1)
    return notServed(`'n' is ${request.choices}; this model gives one answer a call, so call it once for each.`)
  const messages = readObjects(body.messages, "messages")
  if (messages instanceof Failure) return messages
  const conversation = readConversation(messages)
  if (conversation instanceof Failure) return conversation
  const toolUse = readToolUse(body)
  if (toolUse instanceof Failure) return toolUse
  const stopSequences = readStop(body.stop)
  if (stopSequences instanceof Failure) return stopSequences
  const sampling = readSampling(body)
  if (sampling instanceof Failure) return sampling
  const output = readOutput(body.response_format)
  if (output instanceof Failure) return output
  const verbosity = readVerbosity(body.verbosity)
  if (verbosity instanceof Failure) return verbosity
  const reasoning = readReasoning(body, request.maxOutputTokens)
  if (reasoning instanceof Failure) return reasoning
  return {
    ...conversation,
    ...toolUse,
    stopSequences,
    sampling,
    output,
    verbosity,
    cacheKey: typeof body.prompt_cache_key === "string" ? body.prompt_cache_key : undefined,
    reasoning,
  }
}

function readStop(value: Json | undefined): string[] | Failure {
  if (!present(value)) return []
  const all: Json[] = Array.isArray(value) ? value : [value]
  const texts = all.filter((stop) => typeof stop === "string")
  if (texts.length < all.length)
    return misshapen(`'stop' is ${shown(value)}; it must be a string or a list of strings.`)
  return texts.filter((stop) => stop !== "")
}

function readSampling(body: JsonObject): Sampling | Failure {
  const temperature = readNumber(body, "temperature")
  if (temperature instanceof Failure) return temperature
  const topP = readNumber(body, "top_p")
  if (topP instanceof Failure) return topP
  const topK = readNumber(body, "top_k")
  if (topK instanceof Failure) return topK
  return { temperature, topP, topK }
}

function readNumber(body: JsonObject, field: string): number | undefined | Failure {
  const value = body[field]
  if (!present(value)) return undefined
  return typeof value === "number" ? value : misshapen(`'${field}' is ${shown(value)}; it must be a number.`)
}

function readOutput(value: Json | undefined): OutputFormat | undefined | Failure {
  const format = readObject(value, "response_format")
  if (format instanceof Failure) return format
  if (format === undefined || format.type === "text") return undefined
  if (format.type === "json_object") return { kind: "json" }
  if (format.type !== "json_schema")
    return misshapen(
      `'response_format.type' is ${shown(format.type)}; it must be one of text, json_object, json_schema.`,
    )
  const definition: JsonObject = isObject(format.json_schema) ? format.json_schema : {}
  const { name, description, schema, strict } = definition
  if (!isObject(schema))
    return misshapen(`'response_format.json_schema.schema' is ${shown(schema)}; it must be an object.`)
  return {
    kind: "schema",
    name: typeof name === "string" ? name : undefined,
    description: typeof description === "string" ? description : undefined,
    schema,
    strict: typeof strict === "boolean" ? strict : undefined,
  }
}

const VERBOSITIES: readonly Verbosity[] = ["low", "medium", "high"]

function readVerbosity(value: Json | undefined): Verbosity | undefined | Failure {
  if (!present(value)) return undefined
  const verbosity = VERBOSITIES.find((known) => known === value)
  return verbosity ?? misshapen(`'verbosity' is ${shown(value)}; it must be one of ${VERBOSITIES.join(", ")}.`)
}

// The tools of a chat request, and which of them the model may or must call, into the neutral language. The older
// `functions` are tools of which an answer calls at most one.

type ToolUse = Pick<Prompt, "tools" | "toolChoice" | "parallelTools">

/** Whether the client knows only the older `function_call`, and must be answered in it. */
export const usesFunctions = (body: JsonObject): boolean => filled(body.functions) && !filled(body.tools)

/** The tools' own shape has been checked (format.ts). */
function readToolUse(body: JsonObject): ToolUse | Failure {
  const parallel = body.parallel_tool_calls
  if (present(parallel) && typeof parallel !== "boolean")
    return misshapen(`'parallel_tool_calls' is ${shown(parallel)}; it must be true or false.`)
  const tools = readTools(body)
  if (tools instanceof Failure) return tools
  if (tools.some(({ type }) => type === "web-search")) return notServed("Web search is not served on this endpoint.")
  if (usesFunctions(body)) {
    const toolChoice = readFunctionChoice(body.function_call)
    return toolChoice instanceof Failure ? toolChoice : { tools, toolChoice, parallelTools: false }
  }
  const choice = readChoice(body.tool_choice)
  if (choice instanceof Failure) return choice
  const { toolChoice, allowed } = choice
  return {
    tools: allowed === undefined ? tools : tools.filter((tool) => "name" in tool && allowed.has(tool.name)),
    toolChoice,
    parallelTools: parallel ?? undefined,
  }
}

function readTools(body: JsonObject): Tool[] | Failure {
  const tools = readObjects(body.tools, "tools")
  if (tools instanceof Failure) return tools
  const functions = readObjects(body.functions, "functions")
  if (functions instanceof Failure) return functions
  return [
    ...tools.map(readTool),
    ...functions.map((definition) => readTool({ type: "function", function: definition })),
  ]
}

function readTool(tool: JsonObject): Tool {
  if (beginsWith(tool.type, "web_search")) return { type: "web-search", options: tool }
  const custom = tool.type === "custom"
  const found = custom ? tool.custom : tool.function
  const definition: JsonObject = isObject(found) ? found : {}
  const name = typeof definition.name === "string" ? definition.name : ""
  const description = typeof definition.description === "string" ? definition.description : undefined
  if (custom) return { type: "custom", name, description, grammar: readGrammar(definition.format) }
  const { parameters, strict } = definition
  return {
    type: "function",
    name,
    description,
    parameters: isObject(parameters) ? parameters : { type: "object", properties: {} },
    strict: typeof strict === "boolean" ? strict : undefined,
    cache: cacheMark(tool),
  }
}

/** Chat wraps what responses writes flat; the flat form is the neutral one. Plain text is no grammar. */
function readGrammar(format: Json | undefined): JsonObject | undefined {
  if (!isObject(format) || format.type !== "grammar") return undefined
  return isObject(format.grammar) ? { type: "grammar", ...format.grammar } : format
}

interface Choice {
  readonly toolChoice: ToolChoice | undefined
  /** Names of the only tools that may be called; undefined where all may. */
  readonly allowed?: ReadonlySet<string>
}

function readChoice(value: Json | undefined): Choice | Failure {
  if (!present(value)) return { toolChoice: undefined }
  if (value === "auto" || value === "none" || value === "required") return { toolChoice: { kind: value } }
  if (isObject(value) && value.type === "allowed_tools") return readAllowed(value)
  const name = isObject(value) ? nameOf(value) : undefined
  if (name !== undefined) return { toolChoice: { kind: "tool", name } }
  return misshapen(`'tool_choice' is ${shown(value)}; it must be auto, none, required, or an object that names a tool.`)
}

function readAllowed(value: JsonObject): Choice | Failure {
  const allowed = readObject(value.allowed_tools, "tool_choice.allowed_tools")
  if (allowed instanceof Failure) return allowed
  const tools = readObjects(allowed?.tools, "tool_choice.allowed_tools.tools")
  if (tools instanceof Failure) return tools
  const kind = allowed?.mode === "required" ? "required" : "auto"
  return { toolChoice: { kind }, allowed: new Set(tools.map(nameOf).filter((name) => name !== undefined)) }
}

function nameOf(choice: JsonObject): string | undefined {
  const named = choice.type === "custom" ? choice.custom : choice.function
  return isObject(named) && typeof named.name === "string" && named.name !== "" ? named.name : undefined
}

function readFunctionChoice(value: Json | undefined): ToolChoice | undefined | Failure {
  if (!present(value)) return undefined
  if (value === "auto" || value === "none") return { kind: value }
  const name = isObject(value) ? nameOf({ function: value }) : undefined
  if (name !== undefined) return { kind: "tool", name }
  return misshapen(`'function_call' is ${shown(value)}; it must be auto, none, or an object that names a function.`)
}

// Reasoning in a chat request: `reasoning_effort`, and the `thinking` object that vendors with a chat endpoint beside
// their own format take there. The format itself knows no budget, so a budget is written as the effort that it buys.

const THINKING = ["enabled", "adaptive", "disabled"]

/** `limit` is the client's own answer limit, which a budget stays under. */
function readReasoning(body: JsonObject, limit: number | undefined): Reasoning | undefined | Failure {
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
