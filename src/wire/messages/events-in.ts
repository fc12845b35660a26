/**
 * A messages backend's stream: `message_start` … `message_stop`. For a messages client `message_start` has the catalogue's id
 * of the model, it and `message_delta` have the counts without which its SDK cannot read them, and
 * every other event goes out with the exact text it came with. For a client of another format each block is a part;
 * pings, citations, and what tools that ran at the backend did are left out.
 */
import { filled, isObject, type Json, type JsonObject, present, readText } from "../../language/json.ts"
import type { Tokens } from "../../../actors/money/price.ts"
import type { ModelEvent, Prompt } from "../../language/prompt.ts"
import { classifyErrorObject } from "../backend-error.ts"
import type { BackendStream, ClientView, EventMeaning } from "../format.ts"
import { eventType, withEventName, type SseEvent } from "../sse.ts"
import { plausibleTokens } from "../tokens.ts"
import { freeText, toolNames, type ToolNames } from "../shared/tools.ts"
import {
  decodeUsage,
  finishReason,
  laterUsage,
  relayedUsage,
  SearchCount,
  startUsage,
  usageOrEstimate,
  usageTokens,
} from "./usage.ts"
import { TOOL_NAMES } from "./prompt-out.ts"

/** What a model writes. */
const OPEN = {
  texts: new Set(["delta.text", "delta.thinking", "delta.partial_json"]),
  ofStream: new Set(["index"]),
}

export const backendStream = (view: ClientView, prompt?: Prompt): BackendStream => new MessagesStream(view, prompt)

class MessagesStream implements BackendStream {
  readonly openPlaces = OPEN
  readonly #view: ClientView
  readonly #decoder: EventDecoder | undefined
  readonly #searches = new SearchCount()
  #usage: JsonObject | undefined

  constructor(view: ClientView, prompt: Prompt | undefined) {
    this.#view = view
    this.#decoder = prompt && new EventDecoder(prompt)
  }

  meaning(event: SseEvent, body: JsonObject): EventMeaning {
    const type = eventType(event, body)
    if (type === "error" || present(body.error)) return classifyErrorObject(body)
    if (type === "message_stop") return "terminal"
    if (type === "message_start" && isObject(body.message)) this.#usage = startUsage(body.message.usage)
    if (type === "content_block_start") this.#searches.block(body.content_block)
    if (type === "message_delta") {
      this.#usage = laterUsage(this.#usage ?? {}, body.usage)
      this.#searches.usage(body.usage)
    }
    return hasContent(type, body) ? "content" : "empty"
  }

  relayed(came: SseEvent, body: JsonObject): SseEvent {
    const event = withEventName(came, body)
    const type = eventType(came, body)
    const changed =
      type === "message_start" ? this.#relayedStart(body) : type === "message_delta" ? this.#relayedEnd(body) : body
    return changed === body ? event : { event: event.event, data: JSON.stringify(changed) }
  }

  #relayedStart(body: JsonObject): JsonObject {
    const { model, inputTokens = 0 } = this.#view
    const { message } = body
    if (!isObject(message)) return body
    const usage = usageOrEstimate(message.usage, inputTokens)
    if (message.model === model && message.usage === usage) return body
    return { ...body, message: { ...message, model, usage } }
  }

  #relayedEnd(body: JsonObject): JsonObject {
    const usage = relayedUsage(body.usage, this.#usage ?? {})
    return usage === body.usage ? body : { ...body, usage }
  }

  events(event: SseEvent, body: JsonObject | undefined): readonly ModelEvent[] {
    return this.#decoder?.decode(event, body) ?? []
  }

  onPassedThrough(): void {}

  tokens(hasContent: boolean): Tokens | undefined {
    return plausibleTokens(usageTokens(this.#usage), hasContent)
  }

  searches(): number {
    return this.#searches.searches
  }

  position(): undefined {
    return undefined
  }
}

const hasContent = (type: string, body: JsonObject): boolean => {
  if (type === "content_block_delta") return isObject(body.delta) && isContent(body.delta)
  if (type === "content_block_start") return isObject(body.content_block) && isContentBlock(body.content_block)
  return false
}

/** Whatever a delta is called, it brings something unless it is empty. A signature only seals what came before it. */
const isContent = (delta: JsonObject): boolean =>
  delta.type !== "signature_delta" &&
  Object.entries(delta).some(([key, value]) => key !== "type" && (filled(value) || isObject(value)))

/** Text and thinking blocks start empty; a tool's name, or a server tool's whole result, comes with the start. */
export const isContentBlock = (block: JsonObject): boolean =>
  filled(block.text) || filled(block.thinking) || filled(block.name) || filled(block.content) || isObject(block.content)

interface OpenTool {
  readonly index: number
  readonly custom: boolean
  /** What came with the block's start; most backends send it empty, and the input in pieces after it. */
  readonly input: Json | undefined
  /** All pieces of a custom tool's input, which is only readable whole; of a function's only whether any came. */
  pieces: string
}

/** Each block is a part of the neutral language. */
class EventDecoder {
  readonly #names: ToolNames
  #usage: JsonObject = {}
  #tools = 0
  #tool: OpenTool | undefined
  #signature = ""
  /** A block that makes a part is open. */
  #open = false

  constructor(prompt: Prompt) {
    this.#names = toolNames(prompt, TOOL_NAMES)
  }

  decode(event: SseEvent, body: JsonObject | undefined): ModelEvent[] {
    if (body === undefined) return []
    switch (eventType(event, body)) {
      case "message_start":
        return this.#start(isObject(body["message"]) ? body["message"] : {})
      case "content_block_start":
        return [...this.#close(), ...this.#begin(isObject(body["content_block"]) ? body["content_block"] : {})]
      case "content_block_delta":
        return this.#delta(isObject(body["delta"]) ? body["delta"] : {})
      case "content_block_stop":
        return this.#close()
      case "message_delta":
        return this.#end(isObject(body["delta"]) ? body["delta"] : {}, body["usage"])
      case "message_stop":
        return [...this.#close(), { type: "end" }]
      default:
        return []
    }
  }

  #start({ id, usage }: JsonObject): ModelEvent[] {
    this.#usage = startUsage(usage)
    const told = decodeUsage({ ...this.#usage, output_tokens: 0 })
    return [{ type: "start", id: typeof id === "string" && id !== "" ? id : undefined, usage: told }]
  }

  #begin(block: JsonObject): ModelEvent[] {
    switch (readText(block["type"])) {
      case "text":
        this.#open = true
        return textDelta("text-delta", block["text"])
      case "thinking":
        this.#open = true
        this.#signature = readText(block["signature"])
        return textDelta("thinking-delta", block["thinking"])
      case "redacted_thinking":
        this.#open = true
        return [{ type: "thinking-seal", seal: { by: "messages-redacted", data: readText(block["data"]) } }]
      case "tool_use":
        this.#open = true
        return [this.#beginTool(block)]
      default:
        return []
    }
  }

  #beginTool({ id, name: written, input }: JsonObject): ModelEvent {
    const name = this.#names.original(readText(written))
    const custom = this.#names.isCustom(name)
    const index = this.#tools++
    this.#tool = { index, custom, input, pieces: "" }
    return { type: "tool-call-start", index, id: readText(id), name, custom }
  }

  #delta(delta: JsonObject): ModelEvent[] {
    if (!this.#open) return []
    switch (readText(delta["type"])) {
      case "text_delta":
        return textDelta("text-delta", delta["text"])
      case "thinking_delta":
        return textDelta("thinking-delta", delta["thinking"])
      case "signature_delta":
        this.#signature = readText(delta["signature"])
        return []
      case "input_json_delta":
        return this.#input(readText(delta["partial_json"]))
      default:
        return []
    }
  }

  #input(piece: string): ModelEvent[] {
    if (this.#tool === undefined || piece === "") return []
    this.#tool.pieces = this.#tool.custom ? this.#tool.pieces + piece : piece
    return this.#tool.custom ? [] : [{ type: "tool-call-delta", index: this.#tool.index, arguments: piece }]
  }

  #close(): ModelEvent[] {
    if (!this.#open) return []
    const last: ModelEvent[] = []
    if (this.#signature !== "") {
      last.push({ type: "thinking-seal", seal: { by: "messages", data: this.#signature } })
    }
    if (this.#tool !== undefined) {
      const rest = restOfInput(this.#tool)
      if (rest !== "") last.push({ type: "tool-call-delta", index: this.#tool.index, arguments: rest })
    }
    this.#open = false
    this.#signature = ""
    this.#tool = undefined
    return [...last, { type: "part-end" }]
  }

  #end(delta: JsonObject, usage: Json | undefined): ModelEvent[] {
    const events: ModelEvent[] = this.#close()
    const { stop_reason: reason, stop_sequence: sequence } = delta
    if (typeof reason === "string") {
      const stopSequence = typeof sequence === "string" ? sequence : undefined
      events.push({ type: "finish", reason: finishReason(reason), stopSequence })
    }
    if (!isObject(usage)) return events
    const details = usage["output_tokens_details"] ?? this.#usage["output_tokens_details"]
    this.#usage = { ...laterUsage(this.#usage, usage), output_tokens_details: details }
    const told = decodeUsage(this.#usage)
    return told === undefined ? events : [...events, { type: "usage", usage: told }]
  }
}

const textDelta = (type: "text-delta" | "thinking-delta", text: Json | undefined): ModelEvent[] =>
  typeof text === "string" && text !== "" ? [{ type, text }] : []

/** What is still to be told of a call's arguments when its block ends. */
function restOfInput({ custom, pieces, input }: OpenTool): string {
  const whole = JSON.stringify(isObject(input) ? input : {})
  if (custom) return freeText(pieces === "" ? whole : pieces)
  return pieces === "" ? whole : ""
}
