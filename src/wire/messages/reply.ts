/**
 * A whole message: read, for a messages client with its model changed and counts where there were none; put together from a stream; in the neutral
 * language; and written for a messages client.
 */
import { freeText, isJson, toolInput, toolNames, type ToolNames } from "../shared/tools.ts"
import { parseToolInput } from "../../language/exact-numbers.ts"
import { isObject, type Json, type JsonObject, present, readText } from "../../language/json.ts"
import { Failure } from "../../failure/failure.ts"
import { type AssistantPart, CallIds, type ModelReply, type Prompt, type ThinkingPart } from "../../language/prompt.ts"
import { classifyErrorObject } from "../backend-error.ts"
import type { AnswerView, ClientView, Gatherer, Reply } from "../format.ts"
import { plausibleTokens } from "../tokens.ts"
import { seal } from "./content.ts"
import { isContentBlock } from "./events-in.ts"
import { carriesThinking, messageId, reportsThinking } from "./events-out.ts"
import { decodeAnswered } from "./prompt-in.ts"
import { TOOL_NAMES } from "./prompt-out.ts"
import {
  decodeUsage,
  encodeEnding,
  encodeUsage,
  estimatedUsage,
  finishReason,
  laterUsage,
  SearchCount,
  startUsage,
  usageOrEstimate,
  usageTokens,
} from "./usage.ts"
import { eventType, type SseEvent } from "../sse.ts"

export const readReply = (body: JsonObject, view: ClientView): Reply | Failure => {
  if (body.type === "error" || present(body.error)) return classifyErrorObject(body)
  if (!Array.isArray(body.content)) return new Failure("dependency.upstream_unavailable")
  const hasContent = body.content.some((block) => isObject(block) && isContentBlock(block))
  const count = new SearchCount()
  for (const block of body.content) count.block(block)
  count.usage(body.usage)
  const { searches } = count
  const { model, inputTokens } = view
  return {
    body: { ...body, model, ...(inputTokens !== undefined && { usage: usageOrEstimate(body.usage, inputTokens) }) },
    tokens: plausibleTokens(usageTokens(body.usage), hasContent),
    searches,
  }
}

// A messages backend's whole answer as one of the neutral language.

export function decodeReply({ body }: Pick<Reply, "body">, prompt: Prompt): ModelReply {
  const names = toolNames(prompt, TOOL_NAMES)
  const { content, stop_reason: reason, stop_sequence: sequence, usage } = body
  const id = readText(body.id)
  const blocks: JsonObject[] = Array.isArray(content) ? content.filter((block) => isObject(block)) : []
  return {
    id: id === "" ? undefined : id,
    parts: new CallIds(prompt).ofParts(decodeAnswered(blocks), id).map((part) => asMeant(part, names)),
    finish: finishReason(reason),
    stopSequence: typeof sequence === "string" ? sequence : undefined,
    usage: decodeUsage(usage),
  }
}

function asMeant(part: AssistantPart, names: ToolNames): AssistantPart {
  if (part.type !== "tool-call") return part
  const name = names.original(part.name)
  const custom = names.isCustom(name)
  return { ...part, name, custom, arguments: custom ? freeText(part.arguments) : part.arguments }
}

// A whole answer as the message that a client of this format reads.

export function encodeReply(reply: ModelReply, view: AnswerView): JsonObject {
  const shows = reportsThinking(view.request)
  const calls = reply.parts.filter((part) => part.type === "tool-call")
  const whole = calls.every((call) => call.custom || isJson(call.arguments))
  return {
    id: messageId(reply.id, view),
    type: "message",
    role: "assistant",
    model: view.model,
    content: encodeParts(carriesThinking(view.request) ? withCarried(reply.parts) : reply.parts, shows),
    ...encodeEnding({
      finish: reply.finish,
      stopSequence: reply.stopSequence,
      refused: reply.parts.some((part) => part.type === "refusal"),
      tools: calls.length === 0 ? "none" : whole ? "complete" : "cut-off",
    }),
    usage: reply.usage === undefined ? estimatedUsage(view.inputTokens) : encodeUsage(reply.usage),
  }
}

const encodeParts = (parts: readonly AssistantPart[], shows: boolean): JsonObject[] =>
  parts.flatMap((part) => encodePart(part, shows))

/** Thinking that nobody sealed, sealed as what a client carries before the call that needs it (events-out.ts). */
function withCarried(parts: readonly AssistantPart[]): AssistantPart[] {
  let carried = ""
  return parts.flatMap((part): AssistantPart[] => {
    if (part.type === "thinking") {
      carried = part.seal === undefined ? carried + part.text : ""
      return part.seal === undefined ? [] : [part]
    }
    if (part.type !== "tool-call" || carried === "") return [part]
    const data = seal(carried)
    carried = ""
    return [{ type: "thinking", text: "", seal: { by: "messages", data } }, part]
  })
}

function encodePart(part: AssistantPart, shows: boolean): JsonObject[] {
  if (part.type === "tool-call") return [{ type: "tool_use", id: part.id, name: part.name, input: toolInput(part) }]
  if (part.type === "thinking") return encodeThinking(part, shows)
  return part.text === "" ? [] : [{ type: "text", text: part.text }]
}

/** Only what a messages backend sealed can be sent back to one; a signature is never made up. */
function encodeThinking({ text, seal }: ThinkingPart, shows: boolean): JsonObject[] {
  if (seal?.by === "messages-redacted") return [{ type: "redacted_thinking", data: seal.data }]
  const signature = seal?.by === "messages" ? seal.data : ""
  const thinking = shows ? text : ""
  return thinking === "" && signature === "" ? [] : [{ type: "thinking", thinking, signature }]
}

// A messages stream put together into the message that a call without a stream would have got. Fields and kinds of deltas
// that nobody here knows are kept: a text goes on where it came in pieces, anything else is set.

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
    assign(this.#message, others)
    if (isObject(delta)) assign(this.#message, delta)
    if (!isObject(usage)) return
    const counts = Object.entries(laterUsage(this.#usage, usage)).filter(([, count]) => count !== undefined)
    assign(this.#usage, withoutNull(usage))
    assign(this.#usage, Object.fromEntries(counts))
  }
}

/** Into an object of ours, and not into a copy: a backend may tell of the end as often as it likes. */
export function assign(object: JsonObject, fields: JsonObject): void {
  for (const [name, value] of Object.entries(fields)) if (name !== "__proto__") object[name] = value
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
    const input = parseToolInput(json)
    return { ...block, input: isObject(input) ? input : {} }
  } catch {
    return { ...block, input: {} }
  }
}
