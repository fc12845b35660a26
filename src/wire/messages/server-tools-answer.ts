/**
 * The one answer that a client is told for several turns of a backend: blocks of all turns and of the searches between
 * them, the last turn's end, usage summed. Told as events as it grows, or whole at the end.
 */
import { type FoundPage, resultBlock, searchBlock, type SearchErrorCode } from "./server-tools-blocks.ts"
import type { Tokens } from "../../../actors/money/tokens.ts"
import { isObject, type JsonObject } from "../../language/json.ts"
import { encodeSse } from "../sse.ts"
import type { Turn } from "./server-tools-turn.ts"
import { promptUsage } from "./usage.ts"

/** Reasons of this format for an end that the gateway itself makes. */
export type GatewayEnd = "pause_turn" | "max_tokens" | "model_context_window_exceeded"

export class SearchedAnswer {
  readonly #blocks: JsonObject[] = []
  #first: JsonObject = {}
  #last: Turn | undefined
  #turns = 0
  /** Blocks that a turn came with. */
  #read = 0
  #searches = 0

  get blocksTold(): number {
    return this.#blocks.length
  }
  /** How many searches were run. */
  get searches(): number {
    return this.#searches
  }

  take(turn: Turn): void {
    if (this.#last === undefined) this.#first = turn.message
    this.#last = turn
    this.#turns++
    this.#blocks.push(...turn.blocks)
    this.#read = this.#blocks.length
  }

  /** The model asks for a search. The events that say so. */
  ask(id: string, input: JsonObject): string {
    const index = this.#blocks.length
    const block = searchBlock(id, input)
    this.#blocks.push(block)
    return (
      blockEvent("content_block_start", index, { content_block: { ...block, input: {} } }) +
      blockEvent("content_block_delta", index, {
        delta: { type: "input_json_delta", partial_json: JSON.stringify(input) },
      }) +
      blockEvent("content_block_stop", index, {})
    )
  }

  countSearch(): void {
    this.#searches++
  }

  /** What came of it. The events that say so. */
  found(id: string, found: readonly FoundPage[] | SearchErrorCode): string {
    const index = this.#blocks.length
    const block = resultBlock(id, found)
    this.#blocks.push(block)
    return (
      blockEvent("content_block_start", index, { content_block: block }) + blockEvent("content_block_stop", index, {})
    )
  }

  /** All that has been told so far, as the client would send it back; the next turn goes on from there. */
  message(): JsonObject {
    return { role: "assistant", content: [...this.#blocks] }
  }

  /** What has been found since the last turn. */
  newest(): JsonObject[] {
    return this.#blocks.slice(this.#read)
  }

  /** The events of the end. `tokens` are those of all turns; undefined when they could not be read. */
  lastEvents(tokens: Tokens | undefined, end: GatewayEnd | undefined): string {
    const delta = { type: "message_delta", delta: this.#end(end), usage: this.#usage(tokens) }
    return (
      encodeSse("message_delta", JSON.stringify(delta)) +
      encodeSse("message_stop", JSON.stringify({ type: "message_stop" }))
    )
  }

  reply(tokens: Tokens | undefined, end: GatewayEnd | undefined): JsonObject {
    return { ...this.#first, content: [...this.#blocks], ...this.#end(end), usage: this.#usage(tokens) }
  }

  #end(end: GatewayEnd | undefined): JsonObject {
    return end === undefined ? (this.#last?.end ?? {}) : { stop_reason: end, stop_sequence: null }
  }

  #usage(tokens: Tokens | undefined): JsonObject {
    const last = this.#last?.usage
    const told = isObject(last) ? last : {}
    // What one turn says of its counts in detail is not true of their sums.
    const details = this.#turns > 1 && tokens !== undefined ? { service_tier: told["service_tier"] } : told
    return {
      ...details,
      ...(tokens && { ...promptUsage(tokens), output_tokens: tokens.output }),
      server_tool_use: { web_search_requests: this.#searches, web_fetch_requests: 0 },
    }
  }
}

const blockEvent = (type: string, index: number, fields: JsonObject): string =>
  encodeSse(type, JSON.stringify({ type, index, ...fields }))
