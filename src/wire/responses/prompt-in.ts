/** A client's responses request in the neutral language. What is left out is listed in docs/formats.md. */
import { Failure } from "../../failure/failure.ts"
import {
  isObject,
  type Json,
  type JsonObject,
  misshapen,
  notServed,
  present,
  readObject,
  shown,
} from "../../language/json.ts"
import type { Effort, OutputFormat, Prompt, Reasoning, TextPart } from "../../language/prompt.ts"
import type { ModelRequest } from "../../language/request.ts"
import { decodeItems } from "./items-in.ts"
import { decodeTools } from "./tools.ts"

const EFFORTS: readonly Effort[] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"]

export function decodePrompt({ body }: ModelRequest): Prompt | Failure {
  const conversation = decodeItems(body["input"])
  if (conversation instanceof Failure) return conversation
  const tools = decodeTools(body)
  if (tools instanceof Failure) return tools
  const output = decodeOutput(body["text"])
  if (output instanceof Failure) return output
  const reasoning = decodeReasoning(body["reasoning"])
  if (reasoning instanceof Failure) return reasoning
  const temperature = readNumber(body, "temperature")
  if (temperature instanceof Failure) return temperature
  const topP = readNumber(body, "top_p")
  if (topP instanceof Failure) return topP
  const { parallel_tool_calls: parallel } = body
  if (present(parallel) && typeof parallel !== "boolean")
    return misshapen(`'parallel_tool_calls' is ${shown(parallel)}; it must be true or false.`)
  return {
    instructions: [...texts(body["instructions"]), ...conversation.instructions],
    turns: conversation.turns,
    ...tools,
    parallelTools: parallel ?? undefined,
    stopSequences: [],
    sampling: { temperature, topP, topK: undefined },
    output,
    reasoning,
  }
}

const texts = (text: Json | undefined): TextPart[] =>
  typeof text === "string" && text !== "" ? [{ type: "text", text }] : []

function readNumber(body: JsonObject, field: string): number | undefined | Failure {
  const value = body[field]
  if (!present(value)) return undefined
  return typeof value === "number" ? value : misshapen(`'${field}' is ${shown(value)}; it must be a number.`)
}

/** `text.verbosity` is left out: no other format can ask for it. */
function decodeOutput(text: Json | undefined): OutputFormat | undefined | Failure {
  const format = isObject(text) ? text["format"] : undefined
  if (!isObject(format)) return undefined
  const { type, name, description, schema, strict } = format
  if (type === "text") return undefined
  if (type === "json_object") return { kind: "json" }
  if (type !== "json_schema") return notServed(`'text.format' of type ${shown(type)} is not served.`)
  if (!isObject(schema)) return misshapen(`'text.format.schema' is ${shown(schema)}; it must be an object.`)
  return {
    kind: "schema",
    name: typeof name === "string" ? name : undefined,
    description: typeof description === "string" ? description : undefined,
    schema,
    strict: typeof strict === "boolean" ? strict : undefined,
  }
}

function decodeReasoning(value: Json | undefined): Reasoning | undefined | Failure {
  const reasoning = readObject(value, "reasoning")
  if (reasoning === undefined || reasoning instanceof Failure) return reasoning
  const { effort: asked, summary, generate_summary: olderSummary } = reasoning
  const effort = EFFORTS.find((effort) => effort === asked)
  if (present(asked) && effort === undefined)
    return misshapen(`'reasoning.effort' is ${shown(asked)}; it must be one of ${EFFORTS.join(", ")}.`)
  const visible = present(summary) || present(olderSummary)
  if (effort === undefined && !visible) return undefined
  return { enabled: effort !== "none", effort, budgetTokens: undefined, visible }
}
