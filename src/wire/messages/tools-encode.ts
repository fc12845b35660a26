/**
 * Tools and the choice among them, as a messages backend takes them. A tool that takes free text becomes a function with
 * one text `input`; the answer's decoder takes it out again. `strict` is left out: of the models here only some know it.
 */
import { type JsonObject, present } from "../../chat/json.ts"
import type { Prompt, Tool, ToolChoice } from "../../chat/prompt.ts"
import { cacheControl } from "./blocks-encode.ts"
import { writtenName } from "./tool-names.ts"

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
 * A demand for a tool is lowered to a free choice where the backend would refuse it: while it thinks, and on models that
 * know no demand. Without tools there is nothing to choose, and the backend refuses a choice.
 */
export function encodeToolChoice(
  { tools, toolChoice, parallelTools }: Pick<Prompt, "tools" | "toolChoice" | "parallelTools">,
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
