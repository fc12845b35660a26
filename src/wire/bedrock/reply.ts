/**
 * A whole Converse answer: read, and in the neutral language; and why it ended.
 */
import { isText } from "../shared/text.ts"
import { Failure } from "../../failure/failure.ts"
import type { FinishReason, ModelReply } from "../../language/event.ts"
import { isObject, type Json, type JsonObject } from "../../language/json.ts"
import type { AssistantPart, Prompt } from "../../language/prompt.ts"
import type { Reply } from "../format.ts"
import { freeText } from "../shared/free-text.ts"
import { NARROW, type ToolNames, toolNames } from "../shared/tool-names.ts"
import { filled } from "../steps.ts"
import { ofAnswer } from "../tokens.ts"
import { readUsage, usageTokens } from "./usage.ts"

export const readReply = (body: JsonObject): Reply | Failure => {
  const blocks = contentOf(body)
  if (blocks === undefined) return new Failure("dependency.upstream_unavailable")
  return { body, tokens: ofAnswer(usageTokens(body["usage"]), blocks.some(hasContent)) }
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

export function decodeReply({ body }: Reply, prompt: Prompt): ModelReply {
  const names = toolNames(prompt, NARROW)
  const parts = (contentOf(body) ?? []).flatMap((block) => readBlock(block, names))
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
  if (!isObject(reasoningText) || !isText(reasoningText["text"])) return []
  const { text, signature } = reasoningText
  return [{ type: "thinking", text, seal: isText(signature) ? { by: "messages", data: signature } : undefined }]
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
export function readFinish(told: Json | undefined, called: boolean, stopSequences: readonly string[]): Finish {
  const reason = (typeof told === "string" ? FINISHES[told] : undefined) ?? "stop"
  if (reason === "stop-sequence")
    return { reason, stopSequence: stopSequences.length === 1 ? stopSequences[0] : undefined }
  return { reason: reason === "stop" && called ? "tool-calls" : reason, stopSequence: undefined }
}
