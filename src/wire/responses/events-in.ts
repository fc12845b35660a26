/**
 * A responses backend's stream: numbered `response.*` events until `completed` or `incomplete`. Usage stands in whichever
 * event closes the stream, a failed one too. The answer's identity and the count of its events are kept, because a failure
 * that the gateway adds has to continue both. For a client of another format deltas are taken as they come; what a `done` or
 * the finished item says beyond them is taken then, because compatible backends send some texts only whole.
 */
import { failureOf, finishOf, hasContent, isSearchItem, Places, wholeUsage, replyUsage, usageTokens } from "./reply.ts"
import type { Tokens } from "../../../actors/money/price.ts"
import { CallIds, type ModelEvent, type Prompt } from "../../language/prompt.ts"
import { filled, isObject, type Json, type JsonObject, readText } from "../../language/json.ts"
import type { BackendStream, ClientView, EventMeaning, StreamPosition } from "../format.ts"
import { eventType, withEventName, type SseEvent } from "../sse.ts"
import { boundedSearches, plausibleTokens } from "../tokens.ts"
import { backendSide, firstPart, type Side } from "./items-in.ts"
import { nameOf } from "./tools.ts"

/** What a model writes, and what a vendor pads events with. */
const OPEN = {
  texts: new Set(["delta", "obfuscation"]),
  ofStream: new Set(["item_id", "output_index", "content_index"]),
  number: "sequence_number",
}

export const backendStream = (view: ClientView, prompt?: Prompt): BackendStream => new ResponseStream(view, prompt)

const responseOf = ({ response }: JsonObject): JsonObject | undefined => (isObject(response) ? response : undefined)

class ResponseStream implements BackendStream {
  readonly openPlaces = OPEN
  readonly #view: ClientView
  readonly #decoder: EventDecoder | undefined
  readonly #places = new Places()
  /** Searches in the output; one that is not over may turn out to be none. */
  readonly #searches = new Set<string>()
  /** Searches in the whole output, which some backends leave out. */
  #wholeSearches = 0
  #usage: Json | undefined
  #sequence = 0
  #id: string | undefined
  #createdAt: number | undefined

  constructor(view: ClientView, prompt: Prompt | undefined) {
    this.#view = view
    this.#decoder = prompt && new EventDecoder(prompt)
  }

  meaning(event: SseEvent, body: JsonObject): EventMeaning {
    const type = eventType(event, body)
    const response = responseOf(body)
    if (isObject(response?.usage)) this.#usage = response.usage
    this.#noteSearch(type, body, response)
    const failure = failureOf(type, body, response)
    if (failure !== undefined) return failure
    this.onPassedThrough(body.sequence_number)
    if (typeof response?.id === "string") this.#id = response.id
    if (typeof response?.created_at === "number") this.#createdAt = response.created_at
    if (type === "response.completed" || type === "response.incomplete") return "terminal"
    if (hasContent(type, body)) return "content"
    return type === "response.output_item.added" && isWork(body.item) ? "working" : "empty"
  }

  relayed(came: SseEvent, body: JsonObject): SseEvent {
    const { model } = this.#view
    const event = withEventName(came, body)
    const response = responseOf(body)
    if (response === undefined) return event
    const usage = isObject(response.usage) ? wholeUsage(response.usage) : response.usage
    if (response.model === model && response.usage === usage) return event
    return { event: event.event, data: JSON.stringify({ ...body, response: { ...response, model, usage } }) }
  }

  events(event: SseEvent, body: JsonObject | undefined): readonly ModelEvent[] {
    return this.#decoder?.decode(event, body) ?? []
  }

  onPassedThrough(number: Json | undefined): void {
    this.#sequence = typeof number === "number" && Number.isSafeInteger(number) ? number + 1 : this.#sequence + 1
  }

  tokens(hasContent: boolean): Tokens | undefined {
    return plausibleTokens(usageTokens(this.#usage), hasContent)
  }

  searches(): number {
    return boundedSearches(Math.max(this.#searches.size, this.#wholeSearches))
  }

  #noteSearch(type: string, body: JsonObject, response: JsonObject | undefined): void {
    if (Array.isArray(response?.output)) this.#wholeSearches = response.output.filter(isSearchItem).length
    if (type !== "response.output_item.added" && type !== "response.output_item.done") return
    if (type === "response.output_item.added") this.#places.begin(body)
    else this.#places.end(body)
    const place = this.#places.key(body)
    if (!isSearchItem(body.item)) this.#searches.delete(place)
    else if (boundedSearches(this.#searches.size + 1) > this.#searches.size) this.#searches.add(place)
  }

  position(): StreamPosition {
    return { sequence: this.#sequence, id: this.#id, createdAt: this.#createdAt }
  }
}

/** What is streamed piece by piece, and how far it has come. */
interface Piece {
  readonly key: string
  readonly kind: "text" | "refusal" | "thinking" | "call"
  /** Of calls: their count in the answer. */
  readonly index: number
  length: number
}

/** Reasoning of which nothing is shown, and searches. */
const isWork = (item: Json | undefined): boolean =>
  isObject(item) && (item.type === "reasoning" || item.type === "web_search_call")

class EventDecoder {
  readonly #side: Side
  readonly #ids: CallIds
  #answerId = ""
  readonly #places = new Places()
  readonly #pieces = new Map<string, Piece>()
  /** The piece that began last, until it ends. */
  #open: Piece | undefined
  #calls = 0
  /** Which of its two kinds of text a reasoning item is told in, by output index. */
  readonly #reasoningIn = new Map<string, string>()
  #events: ModelEvent[] = []

  constructor(prompt: Prompt) {
    this.#side = backendSide(prompt)
    this.#ids = new CallIds(prompt)
  }

  decode(event: SseEvent, body: JsonObject | undefined): ModelEvent[] {
    if (body === undefined) return []
    this.#events = []
    this.#read(eventType(event, body), body, isObject(body["response"]) ? body["response"] : {})
    return this.#events
  }

  #read(type: string, body: JsonObject, response: JsonObject): void {
    const { item } = body
    switch (type) {
      case "response.created": {
        const { id } = response
        this.#answerId = readText(id)
        return this.#tell({ type: "start", id: typeof id === "string" ? id : undefined, usage: undefined })
      }
      case "response.output_text.delta":
        return this.#more(this.#contentPiece("text", body), body["delta"])
      case "response.output_text.done":
        return this.#rest(this.#contentPiece("text", body), body["text"])
      case "response.refusal.delta":
        return this.#more(this.#contentPiece("refusal", body), body["delta"])
      case "response.refusal.done":
        return this.#rest(this.#contentPiece("refusal", body), body["refusal"])
      case "response.reasoning_summary_text.delta":
      case "response.reasoning_text.delta":
        return this.#think(type.slice(0, -".delta".length), body)
      case "response.output_item.added":
        this.#places.begin(body)
        if (isObject(item)) this.#beginCall(body, item, false)
        return
      case "response.function_call_arguments.delta":
      case "response.custom_tool_call_input.delta":
        return this.#more(this.#pieces.get(this.#places.key(body)), body["delta"])
      case "response.function_call_arguments.done":
        // Of a call without arguments the item says whether it is whole.
        return filled(body["arguments"])
          ? this.#rest(this.#pieces.get(this.#places.key(body)), body["arguments"])
          : undefined
      case "response.custom_tool_call_input.done":
        return this.#rest(this.#pieces.get(this.#places.key(body)), body["input"])
      case "response.output_item.done":
        if (isObject(item)) this.#endItem(body, item)
        this.#places.end(body)
        return
      case "response.completed":
      case "response.incomplete":
        return this.#endAnswer(response)
    }
  }

  #tell(event: ModelEvent): void {
    this.#events.push(event)
  }

  /** A message's piece; it begins where it is first spoken of. */
  #contentPiece(kind: "text" | "refusal", body: JsonObject): Piece {
    return this.#piece(`${this.#places.partKey(body, body["content_index"])}/${kind}`, kind)
  }

  #piece(key: string, kind: Piece["kind"], index = 0): Piece {
    const known = this.#pieces.get(key)
    if (known) return known
    const piece = { key, kind, index, length: 0 }
    this.#pieces.set(key, piece)
    return piece
  }

  #more(piece: Piece | undefined, delta: Json | undefined): void {
    if (piece === undefined || typeof delta !== "string" || delta === "") return
    this.#turnTo(piece)
    piece.length += delta.length
    if (piece.kind === "call") this.#tell({ type: "tool-call-delta", index: piece.index, arguments: delta })
    else this.#tell({ type: `${piece.kind}-delta`, text: delta })
  }

  /** What the whole has beyond what has come of it; then the piece is over. */
  #rest(piece: Piece | undefined, whole: Json | undefined): void {
    if (piece === undefined) return
    if (typeof whole === "string") this.#more(piece, whole.slice(piece.length))
    this.#endPiece(piece)
  }

  /** Two pieces of one kind in a row are two parts. Calls tell themselves apart. */
  #turnTo(piece: Piece): void {
    if (this.#open === piece || piece.kind === "call") return
    if (this.#open?.kind === piece.kind) this.#tell({ type: "part-end" })
    this.#open = piece
  }

  #endPiece(piece: Piece): void {
    if (this.#open !== piece) return
    this.#tell({ type: "part-end" })
    this.#open = undefined
  }

  /** A summary in several parts is one text; thinking told both as summary and as it was is told once. */
  #think(kind: string, body: JsonObject): void {
    const key = this.#places.key(body)
    if ((this.#reasoningIn.get(key) ?? kind) !== kind) return
    this.#reasoningIn.set(key, kind)
    const piece = this.#piece(key, "thinking")
    const partKey = this.#places.partKey(body, body["summary_index"] ?? body["content_index"])
    if (piece.length > 0 && !this.#reasoningIn.has(partKey)) this.#more(piece, "\n\n")
    this.#reasoningIn.set(partKey, kind)
    this.#more(piece, body["delta"])
  }

  /** Undefined where it is no call, or one that does not yet say what it calls. Its id may come with its end. */
  #beginCall(body: JsonObject, item: JsonObject, isWhole: boolean): Piece | undefined {
    const custom = item["type"] === "custom_tool_call"
    if (!custom && item["type"] !== "function_call") return undefined
    const key = this.#places.key(body)
    const known = this.#pieces.get(key)
    const name = nameOf(item)
    const given = readText(item["call_id"])
    if (known || name === undefined || (given === "" && !isWhole)) return known
    const piece = this.#piece(key, "call", this.#calls++)
    const id = this.#ids.give(given, this.#answerId, piece.index)
    this.#open = piece
    this.#tell({ type: "tool-call-start", index: piece.index, id, name: this.#side.callName(name), custom })
    return piece
  }

  #endItem(body: JsonObject, item: JsonObject): void {
    const call = this.#beginCall(body, item, true)
    if (call) return this.#endCall(call, item)
    if (item["type"] === "reasoning") return this.#endReasoning(body, item)
    if (item["type"] !== "message" || !Array.isArray(item["content"])) return
    for (const [content_index, part] of item["content"].entries()) {
      if (!isObject(part)) continue
      const kind = part["type"] === "refusal" ? "refusal" : "text"
      this.#rest(this.#contentPiece(kind, { ...body, content_index }), part["refusal"] ?? part["text"])
    }
  }

  /** A function's call without arguments has `{}`, as everywhere in this language. */
  #endCall(call: Piece, item: JsonObject): void {
    const whole = item["arguments"] ?? item["input"] ?? ""
    const isBare = item["type"] === "function_call" && call.length === 0 && whole === ""
    this.#rest(call, isBare ? "{}" : whole)
  }

  #endReasoning(body: JsonObject, item: JsonObject): void {
    const piece = this.#piece(this.#places.key(body), "thinking")
    const whole = firstPart(item, this.#side)
    if (whole?.type === "thinking" && piece.length === 0) this.#more(piece, whole.text)
    const { encrypted_content: sealed } = item
    const seal = typeof sealed === "string" && sealed !== "" ? this.#side.seal(sealed) : undefined
    if (seal === undefined) return this.#endPiece(piece)
    this.#turnTo(piece)
    this.#tell({ type: "thinking-seal", seal })
    this.#open = undefined
  }

  #endAnswer(response: JsonObject): void {
    // A backend that streams nothing but the end tells the whole answer there.
    if (this.#pieces.size === 0 && Array.isArray(response["output"]))
      for (const [output_index, item] of response["output"].entries())
        if (isObject(item)) this.#endItem({ output_index }, item)
    const usage = replyUsage(response["usage"])
    if (usage) this.#tell({ type: "usage", usage })
    this.#tell({ type: "finish", reason: finishOf(response, this.#calls > 0), stopSequence: undefined })
    this.#tell({ type: "end" })
  }
}
