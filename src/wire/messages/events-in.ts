/**
 * A messages backend's stream: `message_start` … `message_stop`. For a messages client `message_start` has the catalogue's id
 * of the model, it and `message_delta` have the counts without which its SDK cannot read them, and
 * every other event goes out with the exact text it came with. For a client of another format each block is a part;
 * pings, citations, and what tools that ran at the backend did are left out.
 */
import { filled, isObject, type Json, type JsonObject, present, readText } from "../../language/json.ts"
import type { Tokens } from "../../../actors/money/price.ts"
import { CallIds, type ModelEvent, type Prompt } from "../../language/prompt.ts"
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
  startOrEstimate,
  startUsage,
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
    if (hasContent(type, body)) return "content"
    return type === "content_block_start" && isThought(body.content_block) ? "working" : "empty"
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
    const usage = startOrEstimate(message.usage, inputTokens)
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

/** Where none of it is shown, no more than this comes of it until it is over. */
const isThought = (block: Json | undefined): boolean =>
  isObject(block) && (block.type === "thinking" || block.type === "redacted_thinking")

/** Text and thinking blocks start empty; a tool's name, or a server tool's whole result, comes with the start. */
export const isContentBlock = (block: JsonObject): boolean =>
  filled(block.text) || filled(block.thinking) || filled(block.name) || filled(block.content) || isObject(block.content)

interface OpenTool {
  /** Among the answer's calls. */
  readonly index: number
  readonly called: { readonly name: string; readonly custom: boolean }
  /** What came with the block's start; most backends send it empty, and the input in pieces after it. */
  readonly input: Json | undefined
  /** All pieces of a custom tool's input, which is only readable whole; of a function's only whether any came. */
  pieces: string
}

/** A block that has begun. */
interface OpenBlock {
  /** By which its events name it. */
  readonly index: Json | undefined
  /** What it makes is left out. */
  readonly ignored: boolean
  readonly tool: OpenTool | undefined
  signature: string
}

/** Each block is a part of the neutral language. Calls may be open side by side, as some backends have them. */
class EventDecoder {
  readonly #names: ToolNames
  readonly #ids: CallIds
  #answerId = ""
  #usage: JsonObject = {}
  #tools = 0
  readonly #open = new Map<Json | undefined, OpenBlock>()
  /** The block that began last, until it ends. */
  #last: OpenBlock | undefined

  constructor(prompt: Prompt) {
    this.#names = toolNames(prompt, TOOL_NAMES)
    this.#ids = new CallIds(prompt)
  }

  decode(event: SseEvent, body: JsonObject | undefined): ModelEvent[] {
    if (body === undefined) return []
    switch (eventType(event, body)) {
      case "message_start":
        return this.#start(isObject(body["message"]) ? body["message"] : {})
      case "content_block_start":
        return this.#next(body["index"], isObject(body["content_block"]) ? body["content_block"] : {})
      case "content_block_delta":
        return this.#delta(this.#open.get(body["index"]) ?? this.#last, isObject(body["delta"]) ? body["delta"] : {})
      case "content_block_stop":
        return this.#close(present(body["index"]) ? this.#open.get(body["index"]) : this.#last)
      case "message_delta":
        return this.#end(isObject(body["delta"]) ? body["delta"] : {}, body["usage"])
      case "message_stop":
        return [...this.#closeAll(), { type: "end" }]
      default:
        return []
    }
  }

  #start({ id, usage }: JsonObject): ModelEvent[] {
    this.#usage = startUsage(usage)
    this.#answerId = readText(id)
    const known = decodeUsage({ ...this.#usage, output_tokens: 0 })
    return [{ type: "start", id: this.#answerId === "" ? undefined : this.#answerId, usage: known }]
  }

  /** A text is over when another part begins; of a call more may come. */
  #next(index: Json | undefined, block: JsonObject): ModelEvent[] {
    const before = [this.#last?.tool === undefined ? this.#last : undefined, this.#open.get(index)]
    const ended = before.flatMap((one) => this.#close(one))
    const type = readText(block["type"])
    const tool = type === "tool_use" ? this.#toolOf(block) : undefined
    const signature = type === "thinking" ? readText(block["signature"]) : ""
    this.#last = { index, ignored: !PARTS.has(type), tool, signature }
    this.#open.set(index, this.#last)
    return [...ended, ...this.#begun(type, block, tool)]
  }

  #begun(type: string, block: JsonObject, tool: OpenTool | undefined): ModelEvent[] {
    if (tool !== undefined) {
      const id = this.#ids.give(readText(block["id"]), this.#answerId, tool.index)
      return [{ type: "tool-call-start", ...tool.called, index: tool.index, id }]
    }
    if (type === "text") return textDelta("text-delta", block["text"])
    if (type === "thinking") return textDelta("thinking-delta", block["thinking"])
    if (type !== "redacted_thinking") return []
    return [{ type: "thinking-seal", seal: { by: "messages-redacted", data: readText(block["data"]) } }]
  }

  #toolOf({ name: written, input }: JsonObject): OpenTool {
    const name = this.#names.original(readText(written))
    return { index: this.#tools++, called: { name, custom: this.#names.isCustom(name) }, input, pieces: "" }
  }

  #delta(block: OpenBlock | undefined, delta: JsonObject): ModelEvent[] {
    if (block === undefined || block.ignored) return []
    switch (readText(delta["type"])) {
      case "text_delta":
        return textDelta("text-delta", delta["text"])
      case "thinking_delta":
        return textDelta("thinking-delta", delta["thinking"])
      case "signature_delta":
        block.signature = readText(delta["signature"])
        return []
      case "input_json_delta":
        return inputDelta(block.tool, readText(delta["partial_json"]))
      default:
        return []
    }
  }

  #close(block: OpenBlock | undefined): ModelEvent[] {
    if (block === undefined || !this.#open.delete(block.index)) return []
    const { signature, tool, ignored } = block
    const last: ModelEvent[] = []
    if (signature !== "") last.push({ type: "thinking-seal", seal: { by: "messages", data: signature } })
    const rest = tool === undefined ? "" : restOfInput(tool)
    if (tool !== undefined && rest !== "") last.push({ type: "tool-call-delta", index: tool.index, arguments: rest })
    if (this.#last !== block) return last
    this.#last = undefined
    return ignored ? last : [...last, { type: "part-end" }]
  }

  #closeAll(): ModelEvent[] {
    return [...this.#open.values()].flatMap((block) => this.#close(block))
  }

  #end(delta: JsonObject, usage: Json | undefined): ModelEvent[] {
    const events = this.#closeAll()
    const { stop_reason: reason, stop_sequence: sequence } = delta
    if (typeof reason === "string") {
      const stopSequence = typeof sequence === "string" ? sequence : undefined
      events.push({ type: "finish", reason: finishReason(reason), stopSequence })
    }
    if (!isObject(usage)) return events
    const details = usage["output_tokens_details"] ?? this.#usage["output_tokens_details"]
    this.#usage = { ...laterUsage(this.#usage, usage), output_tokens_details: details }
    const known = decodeUsage(this.#usage)
    return known === undefined ? events : [...events, { type: "usage", usage: known }]
  }
}

const textDelta = (type: "text-delta" | "thinking-delta", text: Json | undefined): ModelEvent[] =>
  typeof text === "string" && text !== "" ? [{ type, text }] : []

/** Kinds of blocks that make a part. */
const PARTS: ReadonlySet<string> = new Set(["text", "thinking", "redacted_thinking", "tool_use"])

function inputDelta(tool: OpenTool | undefined, piece: string): ModelEvent[] {
  if (tool === undefined || piece === "") return []
  const { custom } = tool.called
  tool.pieces = custom ? tool.pieces + piece : piece
  return custom ? [] : [{ type: "tool-call-delta", index: tool.index, arguments: piece }]
}

/** What is still to be told of a call's arguments when its block ends. */
function restOfInput({ called, pieces, input }: OpenTool): string {
  const whole = JSON.stringify(isObject(input) ? input : {})
  if (called.custom) return freeText(pieces === "" ? whole : pieces)
  return pieces === "" ? whole : ""
}
