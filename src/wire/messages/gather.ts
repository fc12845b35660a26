/**
 * A messages stream put together into the message that a call without a stream would have got. Fields and kinds of deltas
 * that nobody here knows are kept: a text goes on where it came in pieces, anything else is set.
 */
import { readText } from "../shared/text.ts"
import { isObject, type Json, type JsonObject, present } from "../../language/json.ts"
import type { Gatherer } from "../format.ts"
import { eventType, type SseEvent } from "../sse.ts"
import { laterUsage, startUsage } from "./usage.ts"

export const gatherer = (): Gatherer => new MessageGatherer()

class MessageGatherer implements Gatherer {
  readonly #blocks = new GrowingBlocks()
  #message: JsonObject = {}
  #usage: JsonObject = {}

  take(event: SseEvent, body: JsonObject | undefined): void {
    if (body === undefined) return
    const { content_block: block, delta, index } = body
    switch (eventType(event, body)) {
      case "message_start":
        if (!isObject(body["message"])) return
        this.#message = { ...body["message"] }
        this.#usage = startUsage(this.#message["usage"])
        return
      case "content_block_start":
        if (isObject(block)) this.#blocks.begin(index, block)
        return
      case "content_block_delta":
        if (isObject(delta)) this.#blocks.grow(index, delta)
        return
      case "message_delta":
        return this.#end(body)
    }
  }

  reply(): JsonObject {
    const { content, ...message } = this.#message
    const begun = Array.isArray(content) ? content : []
    return { ...message, content: [...begun, ...this.#blocks.whole()], usage: this.#usage }
  }

  /** Counts are cumulative, and a count of the prompt that is zero or missing later was not made again. */
  #end({ type: _type, delta, usage, ...others }: JsonObject): void {
    this.#message = { ...this.#message, ...others, ...(isObject(delta) ? delta : {}) }
    if (!isObject(usage)) return
    const counts = Object.entries(laterUsage(this.#usage, usage)).filter(([, count]) => count !== undefined)
    this.#usage = { ...this.#usage, ...withoutNull(usage), ...Object.fromEntries(counts) }
  }
}

const withoutNull = (fields: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => present(value)))

interface GrowingBlock {
  readonly block: JsonObject
  /** The pieces of a tool's input. */
  json: string
}

/** The content of a message as it comes in pieces. */
export class GrowingBlocks {
  readonly #blocks: GrowingBlock[] = []
  /** By the index that the stream gives them. */
  readonly #open = new Map<Json | undefined, GrowingBlock>()

  begin(index: Json | undefined, block: JsonObject): void {
    const growing = { block: { ...block }, json: "" }
    this.#open.set(index, growing)
    this.#blocks.push(growing)
  }

  /** A delta of a block that never began says nothing. */
  grow(index: Json | undefined, delta: JsonObject): void {
    const growing = this.#open.get(index)
    if (growing === undefined) return
    const { block } = growing
    const { type, ...fields } = delta
    switch (readText(type)) {
      case "input_json_delta":
        growing.json += readText(delta["partial_json"])
        return
      case "signature_delta":
        block["signature"] = readText(delta["signature"])
        return
      case "citations_delta":
        if (!Array.isArray(block["citations"])) block["citations"] = []
        block["citations"].push(delta["citation"] ?? null)
        return
      default:
        for (const [name, value] of Object.entries(fields))
          if (present(value)) block[name] = typeof value === "string" ? readText(block[name]) + value : value
    }
  }

  whole(): JsonObject[] {
    return this.#blocks.map(withInput)
  }
}

/** Input that the limit cut off is none. */
function withInput({ block, json }: GrowingBlock): JsonObject {
  if (json === "") return block
  try {
    const input: unknown = JSON.parse(json)
    return { ...block, input: isObject(input) ? input : {} }
  } catch {
    return { ...block, input: {} }
  }
}
