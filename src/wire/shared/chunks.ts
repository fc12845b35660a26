/**
 * What chat completions and completions have in common: `data:` chunks until `[DONE]`, their `usage` object, in which
 * `prompt_tokens` includes what a cache served and stored, and a failure in a stream. For a client of the same format a chunk
 * is written anew only when its model or usage changes, also where a backend leaves the model out, and whatever else it holds travels
 * untouched.
 */
import type { Tokens } from "../../../actors/money/price.ts"
import type { Failure } from "../../failure/failure.ts"
import type { ModelEvent } from "../../language/prompt.ts"
import { type Json, type JsonObject, filled, isObject, present } from "../../language/json.ts"
import { classifyErrorObject } from "../backend-error.ts"
import type { BackendStream, ClientView, EventMeaning, FailureContext } from "../format.ts"
import { encodeSse, openErrorType, type SseEvent, streamCode, messageWithHint } from "../sse.ts"
import { type Count, plausibleTokens, reportedSearches, tokensFromInclusive } from "../tokens.ts"

export const END_MARK = "[DONE]"

export abstract class ChunkStream implements BackendStream {
  abstract readonly openPlaces: BackendStream["openPlaces"]
  readonly #view: ClientView
  #usage: Json | undefined
  #hasChoice = false

  constructor(view: ClientView) {
    this.#view = view
  }

  /** Every client reads a choice: what ends without one is no answer, as it is none in one piece. */
  get endMark(): string | undefined {
    return this.#hasChoice ? END_MARK : undefined
  }

  /** Whether a chunk has usable output. */
  abstract hasContent(chunk: JsonObject): boolean
  abstract events(event: SseEvent, chunk: JsonObject | undefined): readonly ModelEvent[]

  meaning(event: SseEvent, chunk: JsonObject): EventMeaning {
    const failure = isBareError(event, chunk) ? classifyErrorObject(chunk) : failureIn(chunk)
    if (failure !== undefined) return failure
    this.#hasChoice ||= filled(chunk["choices"])
    this.#usage = laterUsage(this.#usage, usageIn(chunk))
    return this.hasContent(chunk) ? "content" : "empty"
  }

  /** The backend was asked for usage whether or not the client asked (decisions §6). */
  relayed(came: SseEvent, chunk: JsonObject): SseEvent | undefined {
    const { model, includeUsage } = this.#view
    const cutsUsage = !includeUsage && chunk["usage"] !== undefined
    if (cutsUsage && isObject(chunk["usage"]) && !filled(chunk["choices"])) return undefined
    const renames = chunk["model"] !== model && (chunk["model"] !== undefined || Array.isArray(chunk["choices"]))
    if (!cutsUsage && !renames) return came
    const data = JSON.stringify({ ...chunk, ...(renames && { model }), ...(cutsUsage && { usage: undefined }) })
    return { event: came.event, data }
  }

  onPassedThrough(): void {}

  tokens(hasContent: boolean): Tokens | undefined {
    return plausibleTokens(usageTokens(this.#usage), hasContent)
  }

  searches(): number {
    return usageSearches(this.#usage)
  }

  position(): undefined {
    return undefined
  }
}

/** An event that is named so, and the error object of older vLLM. */
const isBareError = (event: SseEvent, chunk: JsonObject): boolean =>
  event.event === "error" || chunk["object"] === "error"

/** What a chunk or a whole answer says of a failure: as `error`, in a choice of its own (OpenRouter), or as the reason why a choice ended. */
export function failureIn(body: JsonObject): Failure | undefined {
  if (present(body["error"])) return classifyErrorObject(body)
  const { choices } = body
  if (!Array.isArray(choices)) return undefined
  for (const choice of choices)
    if (isObject(choice) && (present(choice["error"]) || FAILED.has(choice["finish_reason"])))
      return classifyErrorObject(choice)
  return undefined
}

/** Reasons to end that are failures: of Mistral and OpenRouter, of DeepSeek, and of Zhipu. */
const FAILED: ReadonlySet<unknown> = new Set(["error", "insufficient_system_resource", "network_error"])

/** The counts of a chunk or a whole answer. Moonshot streams them in the choice that ends. An object without counts is none. */
export function usageIn({ usage, choices }: JsonObject): JsonObject | undefined {
  if (isObject(usage) && Object.keys(usage).length > 0) return usage
  const [choice] = Array.isArray(choices) ? choices : []
  return isObject(choice) && isObject(choice["usage"]) ? choice["usage"] : undefined
}

/** Some backends count in every chunk, and the last count is the whole. Relays end streams with a usage that counts nothing, which is none. */
export const laterUsage = (earlier: Json | undefined, later: Json | undefined): Json | undefined =>
  isObject(later) && !(isObject(earlier) && countsNothing(later)) ? later : earlier

const countsNothing = ({ prompt_tokens: prompt, completion_tokens: completion }: JsonObject): boolean =>
  [prompt, completion].every((count) => !present(count) || count === 0)

export const usageTokens = (usage: Json | undefined): Tokens | undefined => {
  if (!isObject(usage)) return undefined
  const details = isObject(usage.prompt_tokens_details) ? usage.prompt_tokens_details : {}
  const counts = {
    prompt: usage.prompt_tokens,
    cacheRead: cacheReads(usage, details),
    cacheWrite: cacheWrites(details),
    output: outputTokens(usage),
  }
  return tokensFromInclusive(counts)
}

/**
 * Searches that the backend ran, as OpenRouter (`server_tool_use`), xAI (`server_side_tool_usage_details`) and Perplexity
 * (`num_search_queries`) count them. Others do not say.
 */
export const usageSearches = (usage: Json | undefined): number => {
  if (!isObject(usage)) return 0
  const { server_tool_use: tools, server_side_tool_usage_details: details, num_search_queries: queries } = usage
  const counts = [
    isObject(tools) ? tools.web_search_requests : undefined,
    isObject(details) ? details.web_search_calls : undefined,
    queries,
  ]
  return counts.map(reportedSearches).find((count) => count !== undefined) ?? 0
}

/** DeepSeek and Moonshot also, or only, count cache reads beside the prompt's tokens. */
const cacheReads = (usage: JsonObject, details: JsonObject): Count =>
  counted([details.cached_tokens, usage.prompt_cache_hit_tokens, usage.cached_tokens])

/** Qwen and LiteLLM have names of their own for what was stored; both count it within the prompt. */
const cacheWrites = (details: JsonObject): Count =>
  counted([details.cache_write_tokens, details.cache_creation_input_tokens, details.cache_creation_tokens])

/** Of fields that mean the same: servers fill those that they do not count in with 0. */
const counted = (counts: readonly Count[]): Count => counts.find((count) => present(count) && count !== 0)

/**
 * `completion_tokens` includes reasoning, except at vendors (xAI, Google) that leave it out; their total gives it away.
 */
const outputTokens = (usage: JsonObject): Count => {
  const { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total } = usage
  const details = usage.completion_tokens_details
  const reasoning = isObject(details) ? details.reasoning_tokens : undefined
  if (typeof prompt !== "number" || typeof completion !== "number" || typeof reasoning !== "number") return completion
  return reasoning > 0 && total === prompt + completion + reasoning ? completion + reasoning : completion
}

// A failure in a stream: one chunk whose top-level key is `error`, then the end mark (gateway-api.md, "Events" 4).

export const streamFailure = (failure: Failure, { requestId }: FailureContext): string => {
  const error = {
    message: messageWithHint(failure),
    type: openErrorType(failure),
    code: streamCode(failure),
    request_id: requestId,
  }
  return encodeSse("", JSON.stringify({ error })) + encodeSse("", "[DONE]")
}
