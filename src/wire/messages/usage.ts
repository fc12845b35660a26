/**
 * What a messages answer says of its end. Tokens of its `usage`: `input_tokens` excludes what was read from and written to a cache. A stream
 * counts twice: the prompt in `message_start`, and all that is known by then, cumulatively, in each `message_delta`. And why it ended, in this format's words and back.
 */
import type { Tokens } from "../../../actors/money/price.ts"
import type { FinishReason, Usage } from "../../language/prompt.ts"
import { isObject, type Json, type JsonObject, present } from "../../language/json.ts"
import { boundedSearches, reasoningIn, reportedSearches, tokensFromDisjoint } from "../tokens.ts"
import { SEARCH_TOOL } from "./content.ts"

export const usageTokens = (usage: Json | undefined): Tokens | undefined => {
  if (!isObject(usage)) return undefined
  const counts = {
    input: usage.input_tokens,
    cacheRead: usage.cache_read_input_tokens,
    cacheWrite: usage.cache_creation_input_tokens,
    output: usage.output_tokens,
  }
  return tokensFromDisjoint(counts)
}

/** What a stream's beginning says of the prompt. Its `output_tokens` is a placeholder, so it is not a count. */
export const startUsage = (usage: Json | undefined): JsonObject =>
  isObject(usage) ? { ...usage, output_tokens: undefined } : {}

/**
 * Later counts win, but a counter that is absent or zero later was not counted again, and does not. No input beside other
 * counts of the cache is one: all that was taken for input is in the cache.
 */
export const laterUsage = (earlier: JsonObject, later: Json | undefined): JsonObject => {
  if (!isObject(later)) return earlier
  const counts = (key: string): boolean => present(later[key]) && later[key] !== 0
  const latest = (key: string): Json | undefined => (counts(key) ? later[key] : (earlier[key] ?? later[key]))
  const isAllCached = later.input_tokens === 0 && CACHE_COUNTS.some((key) => counts(key) && later[key] !== earlier[key])
  return {
    input_tokens: isAllCached ? 0 : latest("input_tokens"),
    cache_read_input_tokens: latest("cache_read_input_tokens"),
    cache_creation_input_tokens: latest("cache_creation_input_tokens"),
    output_tokens: latest("output_tokens"),
  }
}

const CACHE_COUNTS = ["cache_read_input_tokens", "cache_creation_input_tokens"] as const
const PROMPT_COUNTS = ["input_tokens", ...CACHE_COUNTS] as const
const ALL_COUNTS = [...PROMPT_COUNTS, "output_tokens"] as const

/**
 * What a client of this format is told with a `message_delta`: the backend's `usage` as it is, but that `output_tokens`, without which
 * SDKs fail, is always there, and zeros of what was counted before, which would replace its counts in SDKs, are not.
 * `counted` is what is known with this event.
 */
export function relayedUsage(usage: Json | undefined, counted: JsonObject): JsonObject {
  const reported = isObject(usage) ? usage : {}
  const idle = ALL_COUNTS.filter((count) => reported[count] === 0 && counted[count] !== 0)
  if (idle.length === 0 && present(reported.output_tokens)) return reported
  const kept: JsonObject = Object.fromEntries(
    Object.entries(reported).filter(([name]) => !idle.some((count) => count === name)),
  )
  return { ...kept, output_tokens: kept.output_tokens ?? counted.output_tokens ?? 0 }
}

/** For a client of this format where its backend counted nothing. */
export const estimatedUsage = (inputTokens: number): JsonObject => ({ input_tokens: inputTokens, output_tokens: 0 })

/**
 * A backend's `usage` with both counts that SDKs of this format cannot do without: the estimate where nothing of the prompt is counted, and
 * 0 where the answer is not. What is counted stays, plausible or not. A stream that counts nothing is gathered to `{}`.
 */
export function usageOrEstimate(usage: Json | undefined, inputTokens: number): JsonObject {
  if (!isObject(usage)) return estimatedUsage(inputTokens)
  const { input_tokens: input, output_tokens: output } = usage
  if (present(input) && present(output)) return usage
  const isCounted = PROMPT_COUNTS.some((count) => present(usage[count]))
  return { ...usage, input_tokens: input ?? (isCounted ? 0 : inputTokens), output_tokens: output ?? 0 }
}

/** As a stream begins, a prompt of no tokens is one that is not counted yet, and a client would take it for the size of its context. */
export function startOrEstimate(usage: Json | undefined, inputTokens: number): JsonObject {
  const told = usageOrEstimate(usage, inputTokens)
  const isCounted = PROMPT_COUNTS.some((count) => present(told[count]) && told[count] !== 0)
  return isCounted ? told : { ...told, input_tokens: inputTokens }
}

/**
 * Searches that the backend ran: as it counted them at the end, which leaves out those that failed, else as many as it began
 * (https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool).
 */
export class SearchCount {
  #begun = 0
  #claimed: number | undefined

  block(block: Json | undefined): void {
    if (isObject(block) && block["type"] === "server_tool_use" && block["name"] === SEARCH_TOOL) this.#begun++
  }

  usage(usage: Json | undefined): void {
    const tools = isObject(usage) ? usage["server_tool_use"] : undefined
    if (isObject(tools)) this.#claimed = reportedSearches(tools["web_search_requests"]) ?? this.#claimed
  }

  get searches(): number {
    return this.#claimed ?? boundedSearches(this.#begun)
  }
}

// Usage as a client of this format is told it, and as a backend of this format tells it for clients of the others. In
// tokens. What is charged is read above; here counts are only passed on.

export function decodeUsage(usage: Json | undefined): Usage | undefined {
  const tokens = usageTokens(usage)
  if (tokens === undefined) return undefined
  const details = isObject(usage) ? usage["output_tokens_details"] : undefined
  const thinking = isObject(details) ? details["thinking_tokens"] : undefined
  return { tokens, reasoning: reasoningIn(tokens.output, thinking) }
}

export const encodeUsage = ({ tokens, reasoning }: Usage): JsonObject => ({
  ...promptUsage(tokens),
  output_tokens: tokens.output,
  ...(reasoning !== undefined && { output_tokens_details: { thinking_tokens: reasoning } }),
})

export const promptUsage = ({ input, cacheRead, cacheWrite }: Omit<Usage["tokens"], "output">): JsonObject => ({
  input_tokens: input,
  cache_creation_input_tokens: cacheWrite,
  cache_read_input_tokens: cacheRead,
})

const FINISHES: Readonly<Record<string, FinishReason>> = {
  end_turn: "stop",
  stop_sequence: "stop-sequence",
  max_tokens: "length",
  model_context_window_exceeded: "length",
  tool_use: "tool-calls",
  refusal: "content-filter",
  pause_turn: "pause",
}

const STOPS: Readonly<Record<FinishReason, string>> = {
  stop: "end_turn",
  "stop-sequence": "stop_sequence",
  length: "max_tokens",
  "tool-calls": "end_turn",
  "content-filter": "refusal",
  pause: "pause_turn",
}

/** A reason that came after this was written is an end like any other. */
export const finishReason = (stopReason: Json | undefined): FinishReason =>
  (typeof stopReason === "string" ? FINISHES[stopReason] : undefined) ?? "stop"

export interface Ending {
  readonly finish: FinishReason
  readonly stopSequence: string | undefined
  /** A text of the answer was marked as a refusal. */
  readonly refused: boolean
  readonly tools: "none" | "complete" | "cut-off"
}

/**
 * Clients run an answer's tools when it says so, whatever the backend said of its end. Only a call that was cut off is
 * not run, when the backend owns up to having cut it.
 */
export function encodeEnding(ending: Ending): { stop_reason: string; stop_sequence: string | null } {
  const { finish, stopSequence, refused, tools } = ending
  const owned = finish === "length" || finish === "content-filter"
  if (tools === "complete" || (tools === "cut-off" && !owned)) return { stop_reason: "tool_use", stop_sequence: null }
  if (refused && finish === "stop") return { stop_reason: "refusal", stop_sequence: null }
  return {
    stop_reason: STOPS[finish],
    stop_sequence: finish === "stop-sequence" ? (stopSequence ?? null) : null,
  }
}
