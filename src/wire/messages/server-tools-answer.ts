/**
 * The one answer that a client is told for several turns of a backend: blocks of all turns and of the searches between
 * them, the last turn's end, usage summed. Told as events as it grows, or whole at the end.
 */
import type { Tokens } from "../../../actors/money/price.ts"
import { isObject, type Json, type JsonObject, readText } from "../../language/json.ts"
import { Steps } from "../backend-stream.ts"
import type { SentStep, StreamReader, StreamStep } from "../format.ts"
import { encodeSse, eventObject, type SseEvent } from "../sse.ts"
import { assign, GrowingBlocks } from "./reply.ts"
import { type FoundPage, resultBlock, SEARCH_TOOL, searchBlock, type SearchErrorCode, webCitation } from "./content.ts"
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

  get blocksSent(): number {
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

  /** All that has been told so far, as the client would send it back; the next turn goes on from there. The vendor refuses a blank text. */
  message(): JsonObject {
    return { role: "assistant", content: this.#blocks.filter((block) => !isBlank(block)) }
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
    const reported = isObject(last) ? last : {}
    // What one turn says of its counts in detail is not true of their sums.
    const details = this.#turns > 1 && tokens !== undefined ? { service_tier: reported["service_tier"] } : reported
    return {
      ...details,
      ...(tokens && { ...promptUsage(tokens), output_tokens: tokens.output }),
      server_tool_use: { web_search_requests: this.#searches, web_fetch_requests: 0 },
    }
  }
}

const isBlank = ({ type, text }: JsonObject): boolean => type === "text" && readText(text).trim() === ""

const blockEvent = (type: string, index: number, fields: JsonObject): string =>
  encodeSse(type, JSON.stringify({ type, index, ...fields }))

/**
 * One turn of a backend within an answer for which the gateway searches: what of it the client is told, in blocks that
 * count on from the turns before, and what is withheld: calls of the search tool, and the turn's own end.
 */
export interface Turn {
  /** What the client is told, whole. */
  readonly blocks: readonly JsonObject[]
  /** The inputs of the searches asked for. */
  readonly searches: readonly JsonObject[]
  /** The answer's frame: its id, model and role. */
  readonly message: JsonObject
  /** The reason of the end, and what else the end says. */
  readonly end: JsonObject
  readonly usage: Json | undefined
}

/** What a turn is read with. */
interface TurnOptions {
  /** How many blocks the client has been told by the turns before. */
  readonly blocksSent: number
  /** Where results come from that the client itself gave. */
  readonly clientSources: ReadonlySet<string>
}

/** Whatever else a model wrote is none of the tool's, and may nest deeper than it can be walked through. */
function searchInput({ input }: JsonObject): JsonObject {
  const query = isObject(input) ? input["query"] : undefined
  return query === undefined || typeof query === "object" ? {} : { query }
}

const isSearchCall = (block: JsonObject): boolean => block["type"] === "tool_use" && block["name"] === SEARCH_TOOL

/** A turn that came in one piece. */
export function turnOfReply(body: JsonObject, { clientSources }: TurnOptions): Turn {
  const { content, stop_reason: reason, stop_sequence: sequence, stop_details: details, usage, ...message } = body
  const blocks = Array.isArray(content) ? content.filter((block) => isObject(block)) : []
  return {
    blocks: blocks
      .filter((block) => !isSearchCall(block))
      .map((block) =>
        Array.isArray(block["citations"])
          ? { ...block, citations: block["citations"].map((one) => citationFor(one, clientSources)) }
          : block,
      ),
    searches: blocks.filter(isSearchCall).map(searchInput),
    message,
    end: {
      stop_reason: reason ?? null,
      stop_sequence: sequence ?? null,
      ...(details !== undefined && { stop_details: details }),
    },
    usage,
  }
}

const citationFor = (citation: Json, clientSources: ReadonlySet<string>): Json =>
  isObject(citation) &&
  citation["type"] === "search_result_location" &&
  !clientSources.has(readText(citation["source"]))
    ? webCitation(citation)
    : citation

/** Reads a stream's turn through the format's own reader, which knows usage, failures and the model's name. */
export class TurnReader implements StreamReader {
  readonly #inner: StreamReader
  readonly #terms: TurnOptions
  readonly #steps = new Steps()
  readonly #blocks = new GrowingBlocks()
  /** Places in the client's answer, of the blocks in their order; undefined for a search, which the gateway itself tells of. */
  readonly #places: (number | undefined)[] = []
  /** The same by the stream's own index. */
  readonly #open = new Map<Json | undefined, number | undefined>()
  #index: number
  #message: JsonObject = {}
  readonly #end: JsonObject = {}
  #usage: Json | undefined

  constructor(inner: StreamReader, terms: TurnOptions) {
    this.#inner = inner
    this.#terms = terms
    this.#index = terms.blocksSent
  }

  tokens() {
    return this.#inner.tokens()
  }
  searches() {
    return this.#inner.searches()
  }
  position() {
    return undefined
  }

  /** All of it; to be asked once the stream has come to its end. */
  turn(): Turn {
    const whole = this.#blocks.whole()
    const isSent = (_: JsonObject, place: number) => this.#places[place] !== undefined
    return {
      blocks: whole.filter(isSent),
      searches: whole.filter((block, place) => !isSent(block, place)).map(searchInput),
      message: this.#message,
      end: this.#end,
      usage: this.#usage,
    }
  }

  read(event: SseEvent): StreamStep {
    const step = this.#inner.read(event)
    if (step.kind === "failure") return step
    if (step.kind === "terminal") return this.#steps.terminal("")
    const body = step.bytes === "" ? undefined : eventObject(event)
    if (body === undefined) return this.#steps.nothing()
    const has = step.kind === "content"
    switch (readText(body["type"]) || event.event) {
      case "message_start":
        if (isObject(body["message"])) this.#message = body["message"]
        // One answer, one beginning.
        return this.#steps.step(false, this.#terms.blocksSent === 0 ? step.bytes : "")
      case "content_block_start":
        return { ...this.#begin(body, has), isWorking: step.isWorking === true }
      case "content_block_delta":
        return this.#grow(body, has)
      case "content_block_stop":
        return this.#pass(body, false)
      case "message_delta":
        if (isObject(body["delta"])) assign(this.#end, body["delta"])
        this.#usage = body["usage"] ?? this.#usage
        return this.#steps.nothing()
      default:
        return this.#steps.step(has, step.bytes)
    }
  }

  #begin(body: JsonObject, has: boolean): SentStep {
    const block: JsonObject = isObject(body["content_block"]) ? body["content_block"] : {}
    const place = isSearchCall(block) ? undefined : this.#index++
    this.#open.set(body["index"], place)
    this.#places.push(place)
    this.#blocks.begin(body["index"], block)
    return this.#pass(body, has)
  }

  #grow(body: JsonObject, has: boolean): StreamStep {
    if (!isObject(body["delta"])) return this.#pass(body, has)
    const { citation, ...others } = body["delta"]
    const delta: JsonObject =
      citation === undefined ? others : { ...others, citation: citationFor(citation, this.#terms.clientSources) }
    this.#blocks.grow(body["index"], delta)
    return this.#pass({ ...body, delta }, has)
  }

  /** The event with the block's place in the whole answer; nothing of a search. */
  #pass(body: JsonObject, has: boolean): SentStep {
    const index = this.#open.get(body["index"])
    if (index === undefined) return this.#steps.nothing()
    return this.#steps.step(has, encodeSse(readText(body["type"]), JSON.stringify({ ...body, index })))
  }
}
