/**
 * One turn of a backend within an answer for which the gateway searches: what of it the client is told, in blocks that
 * count on from the turns before, and what is withheld: calls of the search tool, and the turn's own end.
 */
import { readText } from "../shared/text.ts"
import { isObject, type Json, type JsonObject } from "../../language/json.ts"
import type { StreamReader, StreamStep } from "../format.ts"
import { encodeSse, eventObject, type SseEvent } from "../sse.ts"
import { Steps } from "../backend-stream.ts"
import { GrowingBlocks } from "./reply.ts"
import { SEARCH_TOOL, webCitation } from "./server-tools-blocks.ts"

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
export interface TurnTerms {
  /** How many blocks the client has been told by the turns before. */
  readonly blocksTold: number
  /** Where results come from that the client itself gave. */
  readonly clientSources: ReadonlySet<string>
}

const isSearchCall = (block: JsonObject): boolean => block["type"] === "tool_use" && block["name"] === SEARCH_TOOL

/** A turn that came in one piece. */
export function turnOfReply(body: JsonObject, { clientSources }: TurnTerms): Turn {
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
    searches: blocks.filter(isSearchCall).map(({ input }) => (isObject(input) ? input : {})),
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
  readonly #terms: TurnTerms
  readonly #steps = new Steps()
  readonly #blocks = new GrowingBlocks()
  /** Places in the client's answer, of the blocks in their order; undefined for a search, which the gateway itself tells of. */
  readonly #places: (number | undefined)[] = []
  /** The same by the stream's own index. */
  readonly #open = new Map<Json | undefined, number | undefined>()
  #index: number
  #message: JsonObject = {}
  #end: JsonObject = {}
  #usage: Json | undefined

  constructor(inner: StreamReader, terms: TurnTerms) {
    this.#inner = inner
    this.#terms = terms
    this.#index = terms.blocksTold
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
    const isTold = (_: JsonObject, place: number) => this.#places[place] !== undefined
    return {
      blocks: whole.filter(isTold),
      searches: whole
        .filter((block, place) => !isTold(block, place))
        .flatMap(({ input }) => (isObject(input) ? [input] : [])),
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
        return this.#steps.step(false, this.#terms.blocksTold === 0 ? step.bytes : "")
      case "content_block_start":
        return this.#begin(body, has)
      case "content_block_delta":
        return this.#grow(body, has)
      case "content_block_stop":
        return this.#pass(body, false)
      case "message_delta":
        if (isObject(body["delta"])) this.#end = { ...this.#end, ...body["delta"] }
        this.#usage = body["usage"] ?? this.#usage
        return this.#steps.nothing()
      default:
        return this.#steps.step(has, step.bytes)
    }
  }

  #begin(body: JsonObject, has: boolean): StreamStep {
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
  #pass(body: JsonObject, has: boolean): StreamStep {
    const index = this.#open.get(body["index"])
    if (index === undefined) return this.#steps.nothing()
    return this.#steps.step(has, encodeSse(readText(body["type"]), JSON.stringify({ ...body, index })))
  }
}
