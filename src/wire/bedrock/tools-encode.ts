/**
 * Tools and the choice among them, as Converse takes them. Tools that were called earlier must be told even where the
 * request offers none, and there is no way to forbid a tool that is told.
 */
import type { JsonObject } from "../../language/json.ts"
import type { Prompt, Tool, ToolChoice } from "../../language/prompt.ts"
import type { Endpoint } from "../../language/request.ts"
import { notServed } from "../../language/shape.ts"
import type { Failure } from "../../failure/failure.ts"
import { inputSchema } from "../chat/tools-encode.ts"
import type { ToolNames } from "../chat/tool-names.ts"

type CallableTool = Exclude<Tool, { type: "web-search" }>

const LONGEST_ID = 64
const DIGEST_DIGITS = 16

/** Undefined where no tool is offered and none was called. */
export function writeToolConfig(prompt: Prompt, client: Endpoint, names: ToolNames): JsonObject | undefined | Failure {
  const offered = prompt.tools.filter((tool): tool is CallableTool => tool.type !== "web-search")
  // Coding agents on responses offer a search with every request (decisions §8); elsewhere whoever offers it means it.
  if (offered.length < prompt.tools.length && client !== "responses")
    return notServed("This model's backend has no web search.")
  const { toolChoice: choice } = prompt
  if (choice?.kind === "tool" && !offered.some(({ name }) => name === choice.name))
    return notServed("The tool that the model is told to call is not one that it can be given.")
  if (offered.length > 0 && prompt.parallelTools === false)
    return notServed("One tool call at most cannot be asked of this model; leave the limit on parallel calls out.")
  const called = calledNames(prompt)
  if (choice?.kind === "none" && called.length > 0)
    return notServed("After tool calls, this model cannot be kept from calling tools; leave the tool choice out.")
  const forgotten = called.filter((name) => !offered.some((tool) => tool.name === name))
  const tools = [
    ...(choice?.kind === "none" ? [] : offered.map((tool) => toolSpec(tool, names))),
    ...forgotten.map((name) => specOf(names.written(name), undefined, { type: "object" })),
  ]
  if (tools.length === 0) return undefined
  const toolChoice = offered.length > 0 ? writeChoice(choice, names) : undefined
  return { tools, ...(toolChoice !== undefined && { toolChoice }) }
}

function toolSpec(tool: CallableTool, names: ToolNames): JsonObject {
  const schema = tool.type === "custom" ? inputSchema(tool.grammar) : { ...tool.parameters, type: "object" }
  return specOf(names.written(tool.name), tool.description, schema)
}

/** A description may not be empty. */
const specOf = (name: string, description: string | undefined, schema: JsonObject): JsonObject => ({
  toolSpec: { name, ...(description?.trim() && { description }), inputSchema: { json: schema } },
})

/** Auto is what happens without a choice, and not every model takes one. */
function writeChoice(choice: ToolChoice | undefined, names: ToolNames): JsonObject | undefined {
  if (choice?.kind === "required") return { any: {} }
  return choice?.kind === "tool" ? { tool: { name: names.written(choice.name) } } : undefined
}

const calledNames = ({ turns }: Prompt): string[] => [
  ...new Set(
    turns.flatMap((turn) =>
      turn.role === "assistant" ? turn.parts.flatMap((part) => (part.type === "tool-call" ? [part.name] : [])) : [],
    ),
  ),
]

/** A call and its result are written alike, so they still belong together. */
export function callId(id: string): string {
  const plain = id.replace(/[^\w-]/g, "_") || "_"
  if (plain === id && id.length <= LONGEST_ID) return id
  const digest = new Bun.CryptoHasher("sha256").update(id).digest("hex").slice(0, DIGEST_DIGITS)
  return `${plain.slice(0, LONGEST_ID - DIGEST_DIGITS - 1)}_${digest}`
}
