/**
 * The flags of `anthropic-beta` that travel (decisions §13.3): those that change how a prompt is read or an answer is told,
 * within the counts that a call is charged by. Left out are what costs more (a longer window, another speed, a longer
 * cache), what the vendor keeps or runs on its side, and what nobody here knows.
 *
 * And system text in mid-conversation, for backends that take none: it is the user's, marked as what it is.
 */
import { isObject, type Json, type JsonObject, present } from "../../language/json.ts"

export const BETA = {
  contextManagement: "context-management-2025-06-27",
  toolChanges: "mid-conversation-tool-changes-2026-07-01",
  perTurn: "per-turn-control-2026-07-01",
  midOutput: "mid-conversation-output-config-2026-07-01",
  clearAt: "mid-conversation-system-clear-at-2026-08-21",
  binding: "thinking-binding-controls-2026-08-01",
  taskBudget: "task-budgets-2026-03-13",
} as const

const LISTED: ReadonlySet<string> = new Set([
  ...Object.values(BETA),
  "advanced-tool-use-2025-11-20",
  "claude-code-20250219",
  "computer-use-2024-10-22",
  "computer-use-2025-01-24",
  "computer-use-2025-11-24",
  "dev-full-thinking-2025-05-14",
  "effort-2025-11-24",
  "fine-grained-tool-streaming-2025-05-14",
  "interleaved-thinking-2025-05-14",
  "mid-conversation-system-2026-04-07",
  "model-context-window-exceeded-2025-08-26",
  "output-128k-2025-02-19",
  "pdfs-2024-09-25",
  "prompt-caching-2024-07-31",
  "prompt-caching-scope-2026-01-05",
  "redact-thinking-2026-02-12",
  "structured-outputs-2025-09-17",
  "structured-outputs-2025-11-13",
  "structured-outputs-2025-12-15",
  "thinking-display-updates-2026-08-18",
  "thinking-token-count-2026-05-13",
  "token-counting-2024-11-01",
  "token-efficient-tools-2025-02-19",
  "tool-examples-2025-10-29",
  "tool-search-tool-2025-10-19",
])

export interface RequestedBetas {
  /** In the order asked for, each once. */
  readonly listed: readonly string[]
  readonly others: readonly string[]
}

const NONE_ASKED: RequestedBetas = { listed: [], others: [] }

/** The flags of a client's header. `isTaken` says which of those that travel a backend takes. */
export function requestedBetas(header: string | null, isTaken: (beta: string) => boolean = () => true): RequestedBetas {
  if (header === null) return NONE_ASKED
  const asked = header
    .split(",")
    .map((beta) => beta.trim())
    .filter((beta) => beta !== "")
  const all = [...new Set(asked)]
  const travels = (beta: string) => LISTED.has(beta) && isTaken(beta)
  return { listed: all.filter(travels), others: all.filter((beta) => !travels(beta)) }
}

/** A tool's type without its date; undefined for the client's own tools. */
export function family(tool: JsonObject): string | undefined {
  const { type } = tool
  return typeof type === "string" && type !== "custom" ? type.replace(/_\d{8}$/, "") : undefined
}

/** Blocks of a system message, by which tools come and go in mid-conversation. */
const TOOL_CHANGES = ["tool_addition", "tool_removal"]

export const isToolChange = ({ type }: JsonObject): boolean => typeof type === "string" && TOOL_CHANGES.includes(type)

/** System text as the user's. Blank text stays, for whoever writes it leaves it out. */
export const asNote = <T extends { readonly text: string }>(part: T): T =>
  part.text.trim() === "" ? part : { ...part, text: `<system>\n${part.text}\n</system>` }

const isSystem = (message: Json): message is JsonObject => isObject(message) && message["role"] === "system"

/**
 * The messages of the format without the role `system`. Results of tools come first in the user's turn, so a text that stood before them
 * goes after them. What only a model that takes the role understands is left out (`unsaidInNotes`). The same list where there is nothing to do.
 */
export function withoutSystemTurns(messages: readonly Json[]): readonly Json[] {
  if (!messages.some(isSystem)) return messages
  const written: Json[] = []
  let notes: JsonObject[] = []
  for (const message of messages) {
    if (isSystem(message)) {
      notes.push(...noteOf(message))
      continue
    }
    if (hasResults(message)) written.push(message, ...notes)
    else written.push(...notes, message)
    notes = []
  }
  return [...written, ...notes]
}

function noteOf({ content }: JsonObject): JsonObject[] {
  const blocks = typeof content === "string" ? [{ type: "text", text: content }] : content
  const said = Array.isArray(blocks) ? blocks.flatMap(noteBlock) : []
  if (said.length === 0) return []
  return [{ role: "user", content: typeof content === "string" ? (said[0]?.["text"] ?? "") : said }]
}

function noteBlock(block: Json): JsonObject[] {
  if (!isObject(block) || isToolChange(block)) return []
  const { text } = block
  if (typeof text !== "string") return [block]
  return text.trim() === "" ? [] : [asNote({ ...block, text })]
}

const hasResults = (message: Json): boolean =>
  isObject(message) &&
  Array.isArray(message["content"]) &&
  message["content"].some((block) => isObject(block) && block["type"] === "tool_result")

/** The paths of what `withoutSystemTurns` leaves out. */
export function unsaidInNotes(messages: Json | undefined): string[] {
  const notes = Array.isArray(messages) ? messages.filter(isSystem) : []
  const blocks = notes.flatMap(({ content }) =>
    Array.isArray(content) ? content.filter((block) => isObject(block)) : [],
  )
  const isChanged = (type: string) => blocks.some((block) => block["type"] === type)
  return [
    ...["output_config", "clear_at"].filter((field) => notes.some((note) => present(note[field]))),
    ...TOOL_CHANGES.filter(isChanged).map((type) => `content.${type}`),
  ].map((path) => `messages.${path}`)
}
