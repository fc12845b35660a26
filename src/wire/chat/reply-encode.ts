/** A whole answer for a chat client. */
import type { ModelReply } from "../../language/event.ts"
import type { JsonObject } from "../../language/json.ts"
import type { AssistantPart, ToolCallPart } from "../../language/prompt.ts"
import type { AnswerView } from "../codec.ts"
import { answerHead, writeCallHead } from "./answer.ts"
import { chatFinish } from "./finish.ts"
import { usesFunctions } from "./tools-decode.ts"
import { chatUsage } from "./usage.ts"

export function encodeReply(reply: ModelReply, view: AnswerView): JsonObject {
  const calls = reply.parts.filter((part) => part.type === "tool-call")
  const finish = chatFinish(reply.finish, calls.length > 0)
  const older = usesFunctions(view.request.body)
  return {
    ...answerHead("chat.completion", reply.id, view),
    choices: [
      {
        index: 0,
        message: writeMessage(reply.parts, calls, older),
        logprobs: null,
        finish_reason: older && finish === "tool_calls" ? "function_call" : finish,
      },
    ],
    ...(reply.usage === undefined ? {} : { usage: chatUsage(reply.usage) }),
  }
}

function writeMessage(parts: readonly AssistantPart[], calls: readonly ToolCallPart[], older: boolean): JsonObject {
  const text = textOf(parts, "text")
  const refusal = textOf(parts, "refusal")
  const thinking = textOf(parts, "thinking")
  const message: JsonObject = {
    role: "assistant",
    content: text === "" && (calls.length > 0 || refusal !== "") ? null : text,
    refusal: refusal === "" ? null : refusal,
  }
  if (thinking !== "") message.reasoning_content = thinking
  const [first] = calls
  if (first === undefined) return message
  if (older) message.function_call = { name: first.name, arguments: first.arguments }
  else message.tool_calls = calls.map((call) => writeCallHead(call.id, call.name, call.arguments, call.custom))
  return message
}

/** Pieces of text meet without a gap, as they do in a stream: another format may cut one sentence into several parts. */
const textOf = (parts: readonly AssistantPart[], type: "text" | "refusal" | "thinking"): string =>
  parts.map((part) => (part.type === type ? part.text : "")).join("")
