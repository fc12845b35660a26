/**
 * A whole Converse answer: read, put together from a stream, and in the neutral language; why it ended, and what it counts.
 */
import { parseToolInput } from "../../language/exact-numbers.ts"
import { type Json, type JsonObject, filled, isObject, isText, readText } from "../../language/json.ts"
import { Failure } from "../../failure/failure.ts"
import {
  type AssistantPart,
  CallIds,
  type FinishReason,
  type ModelReply,
  type Prompt,
  type Usage,
} from "../../language/prompt.ts"
import type { Gatherer, Reply } from "../format.ts"
import { freeText, NARROW, toolNames, type ToolNames } from "../shared/tools.ts"
import { plausibleTokens, tokensFromDisjoint } from "../tokens.ts"
import type { Tokens } from "../../../actors/money/price.ts"
import type { SseEvent } from "../sse.ts"

export const readReply = (body: JsonObject): Reply | Failure => {
  const blocks = contentOf(body)
  if (blocks === undefined) return new Failure("dependency.upstream_unavailable")
  return { body, tokens: plausibleTokens(usageTokens(body["usage"]), blocks.some(hasContent)), searches: 0 }
}

const hasContent = ({ text, toolUse, reasoningContent: thinking }: JsonObject): boolean =>
  filled(text) ||
  isObject(toolUse) ||
  (isObject(thinking) && (isObject(thinking["reasoningText"]) || filled(thinking["redactedContent"])))

/** The blocks of the answer; undefined where the body is no answer. */
function contentOf({ output }: JsonObject): JsonObject[] | undefined {
  const message = isObject(output) ? output["message"] : undefined
  const content = isObject(message) ? message["content"] : undefined
  return Array.isArray(content) ? content.filter((block) => isObject(block)) : undefined
}

// A whole Converse answer in the neutral language.

export function decodeReply({ body }: Pick<Reply, "body">, prompt: Prompt): ModelReply {
  const names = toolNames(prompt, NARROW)
  const blocks = (contentOf(body) ?? []).flatMap((block) => readBlock(block, names))
  const parts = new CallIds(prompt).ofParts(blocks, "")
  const called = parts.some(({ type }) => type === "tool-call")
  const { reason, stopSequence } = readFinish(body["stopReason"], called, prompt.stopSequences)
  return { id: undefined, parts, finish: reason, stopSequence, usage: readUsage(body["usage"]) }
}

function readBlock({ text, toolUse, reasoningContent }: JsonObject, names: ToolNames): AssistantPart[] {
  if (isText(text)) return [{ type: "text", text }]
  if (isObject(reasoningContent)) return readThinking(reasoningContent)
  return isObject(toolUse) ? [readCall(toolUse, names)] : []
}

function readCall({ toolUseId, name: written, input }: JsonObject, names: ToolNames): AssistantPart {
  const name = names.original(isText(written) ? written : "")
  const custom = names.isCustom(name)
  const json = JSON.stringify(input ?? {})
  return {
    type: "tool-call",
    id: isText(toolUseId) ? toolUseId : "",
    name,
    arguments: custom ? freeText(json) : json,
    custom,
  }
}

function readThinking({ reasoningText, redactedContent }: JsonObject): AssistantPart[] {
  if (isText(redactedContent))
    return [{ type: "thinking", text: "", seal: { by: "messages-redacted", data: redactedContent } }]
  if (!isObject(reasoningText)) return []
  const text = readText(reasoningText["text"])
  const { signature } = reasoningText
  if (isText(signature)) return [{ type: "thinking", text, seal: { by: "messages", data: signature } }]
  return text === "" ? [] : [{ type: "thinking", text, seal: undefined }]
}

// Why a Converse answer ended.

const FINISHES: Readonly<Record<string, FinishReason>> = {
  end_turn: "stop",
  stop_sequence: "stop-sequence",
  max_tokens: "length",
  model_context_window_exceeded: "length",
  tool_use: "tool-calls",
  content_filtered: "content-filter",
  guardrail_intervened: "content-filter",
}

export interface Finish {
  readonly reason: FinishReason
  readonly stopSequence: string | undefined
}

/**
 * A reason that came after this was written is an end like any other. Some models call a tool and say that their turn is
 * over. Which sequence stopped an answer is not told, and is known only where there was but one.
 */
export function readFinish(stopReason: Json | undefined, called: boolean, stopSequences: readonly string[]): Finish {
  const reason = (typeof stopReason === "string" ? FINISHES[stopReason] : undefined) ?? "stop"
  if (reason === "stop-sequence")
    return { reason, stopSequence: stopSequences.length === 1 ? stopSequences[0] : undefined }
  return { reason: reason === "stop" && called ? "tool-calls" : reason, stopSequence: undefined }
}

// Tokens of Converse's `usage`. `inputTokens` excludes what was read from and written to a cache (TokenUsage).

export function usageTokens(usage: Json | undefined): Tokens | undefined {
  if (!isObject(usage)) return undefined
  const counts = {
    input: usage["inputTokens"],
    cacheRead: usage["cacheReadInputTokens"],
    cacheWrite: usage["cacheWriteInputTokens"],
    output: usage["outputTokens"],
  }
  return tokensFromDisjoint(counts)
}

/** For the client to see. */
export function readUsage(usage: Json | undefined): Usage | undefined {
  const tokens = usageTokens(usage)
  return tokens && { tokens, reasoning: undefined }
}

// A ConverseStream put together into the answer of Converse.

export const gatherer = (): Gatherer => new ConverseGatherer()

/** What has come of a block; one is of text, of thinking, or a call. */
interface Block {
  text: string
  thinking: string
  signature: string
  redacted: string
  call: JsonObject | undefined
  /** The pieces of a call's input. */
  json: string
}

class ConverseGatherer implements Gatherer {
  readonly #blocks = new Map<Json | undefined, Block>()
  #role: Json = "assistant"
  #end: JsonObject = {}
  #metadata: JsonObject = {}

  take({ event }: SseEvent, body: JsonObject = {}): void {
    switch (event) {
      case "messageStart":
        this.#role = body["role"] ?? this.#role
        return
      case "contentBlockStart":
        if (isObject(body["start"]) && isObject(body["start"]["toolUse"]))
          this.#at(body["contentBlockIndex"]).call = body["start"]["toolUse"]
        return
      case "contentBlockDelta":
        if (isObject(body["delta"])) grow(this.#at(body["contentBlockIndex"]), body["delta"])
        return
      case "messageStop":
        this.#end = body
        return
      case "metadata":
        this.#metadata = body
    }
  }

  reply(): JsonObject {
    const content = [...this.#blocks.values()].flatMap(blockOf)
    return { output: { message: { role: this.#role, content } }, ...this.#end, ...this.#metadata }
  }

  #at(index: Json | undefined): Block {
    const known = this.#blocks.get(index)
    if (known !== undefined) return known
    const block: Block = { text: "", thinking: "", signature: "", redacted: "", call: undefined, json: "" }
    this.#blocks.set(index, block)
    return block
  }
}

function grow(block: Block, { text, toolUse, reasoningContent: thinking }: JsonObject): void {
  block.text += readText(text)
  if (isObject(toolUse)) block.json += readText(toolUse["input"])
  if (!isObject(thinking)) return
  block.thinking += readText(thinking["text"])
  block.signature += readText(thinking["signature"])
  block.redacted += readText(thinking["redactedContent"])
}

function blockOf({ text, thinking, signature, redacted, call, json }: Block): JsonObject[] {
  if (call !== undefined) return [{ toolUse: { ...call, input: inputOf(json) } }]
  if (redacted !== "") return [{ reasoningContent: { redactedContent: redacted } }]
  if (thinking !== "" || signature !== "")
    return [{ reasoningContent: { reasoningText: { text: thinking, ...(signature !== "" && { signature }) } } }]
  return text === "" ? [] : [{ text }]
}

/** Input that the limit cut off is none. */
function inputOf(json: string): Json {
  if (json === "") return {}
  try {
    return parseToolInput(json)
  } catch {
    return {}
  }
}
