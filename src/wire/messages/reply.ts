/**
 * A whole message: read, with only its model changed for a messages client; in the neutral language; and written for a
 * messages client.
 */
import { freeText, toolInput } from "../shared/free-text.ts"
import { readText } from "../shared/text.ts"
import { Failure } from "../../failure/failure.ts"
import type { ModelReply } from "../../language/event.ts"
import { isObject, type JsonObject, present } from "../../language/json.ts"
import type { AssistantPart, Prompt, ThinkingPart } from "../../language/prompt.ts"
import { classifyErrorObject } from "../backend-error.ts"
import type { AnswerView, ClientView, Reply } from "../format.ts"
import { type ToolNames, toolNames } from "../shared/tool-names.ts"
import { ofAnswer } from "../tokens.ts"
import { isContentBlock } from "./events-in.ts"
import { messageId, tellsThinking } from "./events-out.ts"
import { decodeAnswered } from "./prompt-in.ts"
import { TOOL_NAMES } from "./prompt-out.ts"
import { encodeEnding, finishReason } from "./stop-reason.ts"
import { decodeUsage, encodeUsage, usageTokens } from "./usage.ts"

export const readReply = (body: JsonObject, view: ClientView): Reply | Failure => {
  if (body.type === "error" || present(body.error)) return classifyErrorObject(body)
  if (!Array.isArray(body.content)) return new Failure("dependency.upstream_unavailable")
  const hasContent = body.content.some((block) => isObject(block) && isContentBlock(block))
  return { body: { ...body, model: view.model }, tokens: ofAnswer(usageTokens(body.usage), hasContent) }
}

// A messages backend's whole answer as one of the neutral language.

export function decodeReply({ body }: Reply, prompt: Prompt): ModelReply {
  const names = toolNames(prompt, TOOL_NAMES)
  const { id, content, stop_reason: reason, stop_sequence: sequence, usage } = body
  const blocks: JsonObject[] = Array.isArray(content) ? content.filter((block) => isObject(block)) : []
  return {
    id: readText(id) === "" ? undefined : readText(id),
    parts: decodeAnswered(blocks).map((part) => asMeant(part, names)),
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
  const shows = tellsThinking(view.request)
  const calls = reply.parts.filter((part) => part.type === "tool-call")
  const whole = calls.every((call) => call.custom || isWhole(call.arguments))
  return {
    id: messageId(reply.id, view),
    type: "message",
    role: "assistant",
    model: view.model,
    content: reply.parts.flatMap((part) => encodePart(part, shows)),
    ...encodeEnding({
      finish: reply.finish,
      stopSequence: reply.stopSequence,
      refused: reply.parts.some((part) => part.type === "refusal"),
      tools: calls.length === 0 ? "none" : whole ? "complete" : "cut-off",
    }),
    usage: reply.usage === undefined ? { input_tokens: view.inputTokens, output_tokens: 0 } : encodeUsage(reply.usage),
  }
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

function isWhole(json: string): boolean {
  try {
    JSON.parse(json)
    return true
  } catch {
    return false
  }
}
