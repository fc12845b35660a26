/**
 * The tools of a messages request (decisions §12.14). The client's own have a schema; the vendor's are known by a dated
 * type: those that the client runs travel, web search is the gateway's to run, and what else the vendor would run on
 * its side is not served, because it keeps state there or calls out from there. For a backend of another format those that the
 * client runs are spelled out, and a search among tools falls away. `strict` is left out towards a backend: of the models here
 * only some know it.
 */
import { family } from "../shared/betas.ts"
import { cacheControl, readCache, SEARCH_TOOL } from "./content.ts"
import {
  checkName,
  checkSchema,
  firstFailure,
  isObject,
  type Json,
  type JsonObject,
  misshapen,
  notServed,
  present,
  readObjects,
  readText,
  shown,
} from "../../language/json.ts"
import { Failure } from "../../failure/failure.ts"
import type { AssistantPart, Prompt, Tool, ToolCallPart, ToolChoice } from "../../language/prompt.ts"
import type { Feature } from "../../language/request.ts"
import { freeTextSchema, mostSearches, type ToolNames } from "../shared/tools.ts"

/** Run by the client, or (tool search) within the one call, without state. The date that follows may be any. */
const TRAVELS = [
  "bash",
  "text_editor",
  "memory",
  "computer",
  "computer_toolset",
  "browser_toolset",
  "tool_search_tool",
  "tool_search_tool_bm25",
  "tool_search_tool_regex",
]

export interface CheckedTools {
  readonly features: ReadonlySet<Feature>
  /** Told only when the shape of the whole request is right (decisions §4: shape, then features). */
  readonly refusal: Failure | undefined
}

export function checkTools(value: Json | undefined): CheckedTools | Failure {
  const tools = readObjects(value, "tools")
  if (tools instanceof Failure) return tools
  const failure = firstFailure(tools, (tool, index) => checkTool(tool, `tools[${index}]`))
  if (failure) return failure
  const features = new Set<Feature>()
  for (const tool of tools) features.add(family(tool) === "web_search" ? "web_search" : "tools")
  return { features, refusal: firstFailure(tools, refuseHosted) }
}

function checkTool(tool: JsonObject, field: string): Failure | undefined {
  const { type } = tool
  if (present(type) && (typeof type !== "string" || type === ""))
    return misshapen(`'${field}.type' is ${shown(type)}; it must be a string that is not empty.`)
  // No tool that a vendor runs: a chat client's tools, sent to the wrong endpoint.
  if (type === "function")
    return misshapen(
      `'${field}' is a tool of chat completions; here it has no type, but a 'name' and an 'input_schema'.`,
    )
  if (family(tool) !== undefined) return undefined
  return checkName(tool["name"], `${field}.name`) ?? checkSchema(tool["input_schema"], `${field}.input_schema`)
}

function refuseHosted(tool: JsonObject, index: number): Failure | undefined {
  const known = family(tool)
  if (known === undefined || known === "web_search" || TRAVELS.includes(known)) return undefined
  return notServed(`'tools[${index}].type' is ${shown(tool["type"])}; this server tool is not served.`)
}

// The tools of a client's request, for a backend of another format. The vendor's own are known by a dated type: those
// that the client runs are spelled out, a search is the neutral one, and a search among tools falls away, because a
// backend of another format is told of all tools at once.

export function decodeTools(value: Json | undefined): Tool[] | Failure {
  const tools: Tool[] = []
  for (const tool of Array.isArray(value) ? value.filter((each) => isObject(each)) : []) {
    const decoded = decodeTool(tool)
    if (decoded instanceof Failure) return decoded
    tools.push(...decoded)
  }
  return tools
}

function decodeTool(tool: JsonObject): Tool[] | Failure {
  const kind = family(tool)
  if (kind === undefined) return [ownTool(tool)]
  if (kind === "web_search") return [{ type: "web-search", options: searchOptions(tool) }]
  if (kind.startsWith("tool_search_tool")) return []
  const known = clientTool(kind, readText(tool["type"]))
  if (known === undefined)
    return new Failure("request.unsupported_feature", {
      message: `Tools of type ${shown(tool["type"])} are not served for this model.`,
      hint: "Use a model of the vendor that defines this tool, or a tool with an input_schema of its own.",
    })
  return [{ type: "function", name: readText(tool["name"]), ...known, strict: undefined, ...readCache(tool) }]
}

const ownTool = (tool: JsonObject): Tool => ({
  type: "function",
  name: readText(tool["name"]),
  description: typeof tool["description"] === "string" ? tool["description"] : undefined,
  parameters: isObject(tool["input_schema"]) ? tool["input_schema"] : { type: "object", properties: {} },
  strict: typeof tool["strict"] === "boolean" ? tool["strict"] : undefined,
  ...readCache(tool),
})

/** What every tool may carry, and says nothing of a search. */
const NO_OPTIONS = ["type", "name", "cache_control", "defer_loading", "allowed_callers", "strict"]

const searchOptions = (tool: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(tool).filter(([key, value]) => !NO_OPTIONS.includes(key) && present(value)))

export function decodeToolChoice(value: Json | undefined): Pick<Prompt, "toolChoice" | "parallelTools"> | Failure {
  if (!present(value)) return { toolChoice: undefined, parallelTools: undefined }
  const toolChoice = isObject(value) ? choiceOf(value) : undefined
  if (!isObject(value) || toolChoice === undefined)
    return misshapen(`'tool_choice' is ${shown(value)}; it must be an object of type auto, any, tool or none.`)
  return { toolChoice, parallelTools: value["disable_parallel_tool_use"] === true ? false : undefined }
}

function choiceOf({ type, name }: JsonObject): ToolChoice | undefined {
  if (type === "auto" || type === "none") return { kind: type }
  if (type === "any") return { kind: "required" }
  return type === "tool" && typeof name === "string" && name !== "" ? { kind: "tool", name } : undefined
}

// Tools and the choice among them, as a messages backend takes them. A tool that takes free text becomes a function with
// one text `input`; the answer's decoder takes it out again. `strict` is left out: of the models here only some know it.

type ToolUse = Pick<Prompt, "tools" | "toolChoice" | "parallelTools">

/** What a search may be told, in the names of this format. */
const SEARCH_OPTIONS = ["allowed_domains", "blocked_domains", "user_location"]

export const encodeTools = (tools: readonly Tool[], names: ToolNames): JsonObject[] =>
  tools.map((tool) => {
    if (tool.type === "web-search")
      return { type: "web_search_20250305", name: SEARCH_TOOL, ...searchFields(tool.options) }
    return {
      name: names.written(tool.name),
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

const searchFields = (options: JsonObject): JsonObject => ({
  max_uses: mostSearches(options["max_uses"]),
  ...Object.fromEntries(SEARCH_OPTIONS.filter((key) => present(options[key])).map((key) => [key, options[key]])),
})

/**
 * The tools of a request, and the choice among them. A backend refuses a conversation that contains calls but defines no tools. Clients
 * of other formats ask for a final answer in this way. So the tools that were called are defined, and their use is forbidden.
 */
export function toolUseOf({ turns, tools, toolChoice, parallelTools }: Prompt): ToolUse {
  if (tools.length > 0) return { tools, toolChoice, parallelTools }
  const calls = turns.flatMap((turn) => (turn.role === "assistant" ? turn.parts : [])).filter(isCall)
  const called = [...new Set(calls.map(({ name }) => name))].map((name): Tool => ({
    type: "function",
    name,
    description: undefined,
    parameters: {},
    strict: undefined,
  }))
  return { tools: called, toolChoice: { kind: "none" }, parallelTools: undefined }
}

const isCall = (part: AssistantPart): part is ToolCallPart => part.type === "tool-call"

/**
 * A demand for a tool is lowered to a free choice where the backend would refuse it: while it thinks, and on models that
 * know no demand. Without tools there is nothing to choose, and the backend refuses a choice.
 */
export function encodeToolChoice(
  { tools, toolChoice, parallelTools }: ToolUse,
  mayForce: boolean,
  names: ToolNames,
): JsonObject | undefined {
  if (tools.length === 0 || (toolChoice === undefined && parallelTools !== false)) return undefined
  const choice = chosen(toolChoice ?? { kind: "auto" }, mayForce, names)
  return parallelTools === false && choice["type"] !== "none" ? { ...choice, disable_parallel_tool_use: true } : choice
}

function chosen(choice: ToolChoice, mayForce: boolean, names: ToolNames): JsonObject {
  if (choice.kind === "none") return { type: "none" }
  if (choice.kind === "auto" || !mayForce) return { type: "auto" }
  return choice.kind === "tool" ? { type: "tool", name: names.written(choice.name) } : { type: "any" }
}

// The vendor's tools that the client runs, spelled out for models of other vendors. Its own models know their schemas
// by heart, so a request names only a dated type; another model is told the same commands and fields in a schema
// (platform.claude.com, "Bash tool", "Text editor tool", "Memory tool").

export interface ClientTool {
  readonly description: string
  readonly parameters: JsonObject
}

/** Undefined for tools that take screens, pages and coordinates: those only the vendor's models are trained on. */
function clientTool(family: string, type: string): ClientTool | undefined {
  if (family === "bash") return BASH
  if (family === "memory") return MEMORY
  return family === "text_editor" ? textEditor(type) : undefined
}

const text = (description: string): JsonObject => ({ type: "string", description })
const whole = (description: string): JsonObject => ({ type: "integer", description })
const oneOf = (commands: string[]): JsonObject => ({ type: "string", enum: commands, description: "What to do." })

const VIEW_RANGE: JsonObject = {
  type: "array",
  items: { type: "integer" },
  description: "For view of a file: its first and last line, counted from 1; -1 as the last is the file's end.",
}
const EDITS: JsonObject = {
  path: text("The file or directory."),
  file_text: text("For create: the file's whole content."),
  old_str: text("For str_replace: the text to replace, exactly as in the file, where it must occur once."),
  new_str: text("For str_replace: the text to put in its place."),
  insert_line: whole("For insert: the line after which the text goes; 0 is the file's beginning."),
  insert_text: text("For insert: the text."),
  view_range: VIEW_RANGE,
}

const BASH: ClientTool = {
  description: "Runs a command in a bash session that lasts from call to call, and answers with what it printed.",
  parameters: {
    type: "object",
    properties: {
      command: text("The command to run. Needed unless the session is restarted."),
      restart: { type: "boolean", description: "True to start the session anew." },
    },
  },
}

const MEMORY: ClientTool = {
  description:
    "Keeps files under /memories from one conversation to the next. Look there before a task, and note there what will " +
    "be of use later.",
  parameters: {
    type: "object",
    properties: {
      command: oneOf(["view", "create", "str_replace", "insert", "delete", "rename"]),
      ...EDITS,
      old_path: text("For rename: the path as it is."),
      new_path: text("For rename: the path as it shall be."),
    },
    required: ["command"],
  },
}

/** The first version could take back its last edit; it had no text of its own for insert, but used new_str. */
const FIRST_EDITORS = ["text_editor_20241022", "text_editor_20250124"]

function textEditor(type: string): ClientTool {
  const first = FIRST_EDITORS.includes(type)
  const { insert_text, ...edits } = EDITS
  const commands = ["view", "create", "str_replace", "insert"]
  const inserted = first
    ? { new_str: text("For str_replace: the text to put in its place. For insert: the text.") }
    : { insert_text }
  return {
    description: "Views, creates and edits text files.",
    parameters: {
      type: "object",
      properties: { command: oneOf(first ? [...commands, "undo_edit"] : commands), ...edits, ...inserted },
      required: ["command", "path"],
    },
  }
}
