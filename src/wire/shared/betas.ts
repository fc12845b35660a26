/**
 * The flags of `anthropic-beta` that travel (decisions §13.3): those that change how a prompt is read or an answer is told,
 * within the counts that a call is charged by. Left out are what costs more (a longer window, another speed, a longer
 * cache), what the vendor keeps or runs on its side, and what nobody here knows.
 */
import type { JsonObject } from "../../language/json.ts"

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
