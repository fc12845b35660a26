/**
 * The items in the output of a response, whole or just begun: reasoning, the message, function calls. A stream shows
 * each twice, empty when it is added and full when it is done, so the two must come from one place.
 */
import type { Json } from "../chat/json.ts"
import type { Answer, ToolCall } from "./answer.ts"

type Status = "in_progress" | "completed" | "incomplete"

export const reasoningItem = (answer: Answer, text: string) => ({
  id: `rs_${answer.serial}`,
  type: "reasoning",
  summary: text === "" ? [] : [{ type: "summary_text", text }],
  encrypted_content: btoa(`simulated reasoning ${answer.serial}`),
})

export const messageItem = (answer: Answer, content: Json[], status: Status) => ({
  id: `msg_${answer.serial}`,
  type: "message",
  status,
  role: "assistant",
  content,
})

export const textPart = (text: string) => ({ type: "output_text", annotations: [], logprobs: [], text })

export const functionItem = (call: ToolCall, args: string, status: Status) => ({
  id: `fc_${call.serial}`,
  type: "function_call",
  status,
  arguments: args,
  call_id: `call_${call.serial}`,
  name: call.name,
})
