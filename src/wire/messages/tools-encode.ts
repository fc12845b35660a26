/**
 * Tools and the choice among them, as a messages backend takes them. A tool that takes free text becomes a function with
 * one text `input`; the answer's decoder takes it out again. `strict` is left out: of the models here only some know it.
 */
import { type JsonObject, present } from "../../language/json.ts"
import type { AssistantPart, Prompt, Tool, ToolCallPart, ToolChoice } from "../../language/prompt.ts"
import { cacheControl } from "./blocks-encode.ts"
import { writtenName } from "./tool-names.ts"

type ToolUse = Pick<Prompt, "tools" | "toolChoice" | "parallelTools">

/** What a search may be told, in the names of this format. */
const SEARCH_OPTIONS = ["max_uses", "allowed_domains", "blocked_domains", "user_location"]

export const encodeTools = (tools: readonly Tool[]): JsonObject[] =>
  tools.map((tool) => {
    if (tool.type === "web-search")
      return { type: "web_search_20250305", name: "web_search", ...searchOptions(tool.options) }
    return {
      name: writtenName(tool.name),
      ...described(tool.description),
      input_schema: tool.type === "custom" ? freeTextSchema(tool.grammar) : objectSchema(tool.parameters),
      ...(tool.type === "function" && cacheControl(tool.cache)),
    }
  })

/** The backend refuses an empty description. */
const described = (description: string | undefined): JsonObject =>
  description === undefined || description.trim() === "" ? {} : { description }

const objectSchema = (parameters: JsonObject): JsonObject =>
  parameters["type"] === "object" ? parameters : { properties: {}, ...parameters, type: "object" }

const searchOptions = (options: JsonObject): JsonObject =>
  Object.fromEntries(SEARCH_OPTIONS.filter((key) => present(options[key])).map((key) => [key, options[key]]))

function freeTextSchema(grammar: JsonObject | undefined): JsonObject {
  const { syntax, definition } = grammar ?? {}
  const follows =
    typeof definition === "string"
      ? {
          description: `Text that follows this ${typeof syntax === "string" ? `${syntax} ` : ""}grammar:\n${definition}`,
        }
      : {}
  return { type: "object", properties: { input: { type: "string", ...follows } }, required: ["input"] }
}

/**
 * What is offered, and the choice among it. A backend refuses a conversation with calls in it where no tools are told,
 * which is how clients of other formats ask for a last word; so the tools that were called are told, and forbidden.
 */
export function toolsTold({ turns, tools, toolChoice, parallelTools }: Prompt): ToolUse {
  if (tools.length > 0) return { tools, toolChoice, parallelTools }
  const calls = turns.flatMap((turn) => (turn.role === "assistant" ? turn.parts : [])).filter(isCall)
  const told = [...new Set(calls.map(({ name }) => name))].map((name): Tool => ({
    type: "function",
    name,
    description: undefined,
    parameters: {},
    strict: undefined,
  }))
  return { tools: told, toolChoice: { kind: "none" }, parallelTools: undefined }
}

const isCall = (part: AssistantPart): part is ToolCallPart => part.type === "tool-call"

/**
 * A demand for a tool is lowered to a free choice where the backend would refuse it: while it thinks, and on models that
 * know no demand. Without tools there is nothing to choose, and the backend refuses a choice.
 */
export function encodeToolChoice(
  { tools, toolChoice, parallelTools }: ToolUse,
  mayForce: boolean,
): JsonObject | undefined {
  if (tools.length === 0 || (toolChoice === undefined && parallelTools !== false)) return undefined
  const choice = chosen(toolChoice ?? { kind: "auto" }, mayForce)
  return parallelTools === false && choice["type"] !== "none" ? { ...choice, disable_parallel_tool_use: true } : choice
}

function chosen(choice: ToolChoice, mayForce: boolean): JsonObject {
  if (choice.kind === "none") return { type: "none" }
  if (choice.kind === "auto" || !mayForce) return { type: "auto" }
  return choice.kind === "tool" ? { type: "tool", name: writtenName(choice.name) } : { type: "any" }
}
