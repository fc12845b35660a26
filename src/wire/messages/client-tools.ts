/**
 * The vendor's tools that the client runs, spelled out for models of other vendors. Its own models know their schemas
 * by heart, so a request names only a dated type; another model is told the same commands and fields in a schema
 * (platform.claude.com, "Bash tool", "Text editor tool", "Memory tool").
 */
import type { JsonObject } from "../../language/json.ts"

export interface ClientTool {
  readonly description: string
  readonly parameters: JsonObject
}

/** Undefined for tools that take screens, pages and coordinates: those only the vendor's models are trained on. */
export function clientTool(family: string, type: string): ClientTool | undefined {
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
