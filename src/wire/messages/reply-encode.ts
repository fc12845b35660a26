/** A whole answer as the message that a client of this format reads. */
import type { ModelReply } from "../../language/event.ts"
import type { JsonObject } from "../../language/json.ts"
import type { AssistantPart, ThinkingPart } from "../../language/prompt.ts"
import type { AnswerView } from "../codec.ts"
import { messageId, tellsThinking } from "./answer-view.ts"
import { toolInput } from "./blocks-encode.ts"
import { encodeEnding } from "./stop-reason.ts"
import { encodeUsage } from "./told-usage.ts"

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
