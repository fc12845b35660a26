/**
 * A client's messages request as a prompt, for a backend of another format. `request.body` has passed `decodeRequest`.
 * What has no meaning beyond the vendor's own backend is listed in docs/formats.md; `system` is kept whole, the block
 * that Claude Code bills by included: the encoder of a format whose caches that would defeat leaves it out.
 */
import { isObject, type Json, type JsonObject, present } from "../../language/json.ts"
import type { Effort, OutputFormat, Prompt, Reasoning, Turn } from "../../language/prompt.ts"
import type { ModelRequest } from "../../language/request.ts"
import { misshapen, shown } from "../../language/shape.ts"
import { Failure } from "../../failure/failure.ts"
import { decodeAssistant, decodeText, decodeUser } from "./blocks-decode.ts"
import { decodeToolChoice, decodeTools } from "./tools-decode.ts"

export function decodePrompt({ body }: ModelRequest): Prompt | Failure {
  const turns = decodeTurns(body["messages"])
  if (turns instanceof Failure) return turns
  const tools = decodeTools(body["tools"])
  if (tools instanceof Failure) return tools
  const choice = decodeToolChoice(body["tool_choice"])
  if (choice instanceof Failure) return choice
  const stopSequences = readStops(body["stop_sequences"])
  if (stopSequences instanceof Failure) return stopSequences
  const sampling = decodeSampling(body)
  if (sampling instanceof Failure) return sampling
  const reasoning = decodeReasoning(body)
  if (reasoning instanceof Failure) return reasoning
  return {
    instructions: decodeText(body["system"]),
    turns,
    tools,
    ...choice,
    stopSequences,
    sampling,
    output: decodeOutput(body),
    reasoning,
  }
}

function decodeTurns(value: Json | undefined): Turn[] | Failure {
  const turns: Turn[] = []
  for (const message of Array.isArray(value) ? value.filter((each) => isObject(each)) : []) {
    const turn = decodeTurn(message)
    if (turn instanceof Failure) return turn
    // An empty system message may carry another effort for the turns to come, which other formats do not have.
    if (turn.parts.length > 0) turns.push(turn)
  }
  return turns
}

function decodeTurn({ role, content }: JsonObject): Turn | Failure {
  if (role === "system") return { role, parts: decodeText(content) }
  if (role === "assistant") {
    const parts = decodeAssistant(content)
    return parts instanceof Failure ? parts : { role, parts }
  }
  const parts = decodeUser(content)
  return parts instanceof Failure ? parts : { role: "user", parts }
}

function readStops(value: Json | undefined): string[] | Failure {
  if (!present(value)) return []
  if (Array.isArray(value) && value.every((each) => typeof each === "string")) return value
  return misshapen(`'stop_sequences' is ${shown(value)}; it must be an array of strings.`)
}

function decodeSampling(body: JsonObject): Prompt["sampling"] | Failure {
  const wrong = ["temperature", "top_p", "top_k"].find(
    (field) => present(body[field]) && typeof body[field] !== "number",
  )
  if (wrong !== undefined) return misshapen(`'${wrong}' is ${shown(body[wrong])}; it must be a number.`)
  const number = (field: string): number | undefined => (typeof body[field] === "number" ? body[field] : undefined)
  return { temperature: number("temperature"), topP: number("top_p"), topK: number("top_k") }
}

const EFFORTS: readonly Effort[] = ["low", "medium", "high", "xhigh", "max"]

function decodeReasoning(body: JsonObject): Reasoning | undefined | Failure {
  const config = isObject(body["output_config"]) ? body["output_config"] : {}
  const named = config["effort"]
  const effort = EFFORTS.find((each) => each === named)
  if (present(named) && effort === undefined)
    return misshapen(`'output_config.effort' is ${shown(named)}; it must be one of ${EFFORTS.join(", ")}.`)
  const thinking = isObject(body["thinking"]) ? body["thinking"] : undefined
  if (thinking === undefined && effort === undefined) return undefined
  const budget = thinking?.["budget_tokens"]
  return {
    enabled: thinking === undefined || !OFF.includes(thinking["type"] ?? null),
    effort,
    budgetTokens: thinking?.["type"] === "enabled" && typeof budget === "number" ? budget : undefined,
    visible: thinking?.["display"] !== "omitted",
  }
}

/** `between_tools` is the vendor's nearest to no thinking on models that cannot do without. */
const OFF: readonly Json[] = ["disabled", "between_tools"]

/** `output_format` is what it was called while it was new. */
function decodeOutput(body: JsonObject): OutputFormat | undefined {
  const config = isObject(body["output_config"]) ? body["output_config"] : {}
  const format = present(config["format"]) ? config["format"] : body["output_format"]
  if (!isObject(format) || format["type"] !== "json_schema" || !isObject(format["schema"])) return undefined
  return { kind: "schema", name: undefined, description: undefined, schema: format["schema"], strict: undefined }
}
