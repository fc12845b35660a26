/**
 * The items in the output of a response, whole or just begun: reasoning, the message, calls of tools. A stream shows
 * each twice, empty when it is added and full when it is done, so the two must come from one place.
 */
import type { Json } from "../language/json.ts"
import type { Answer, ToolCall } from "./answer.ts"

type Status = "in_progress" | "completed" | "incomplete"

export const reasoningItem = (answer: Answer, text: string) => ({
  id: `rs_${answer.serial}`,
  type: "reasoning",
  summary: text === "" ? [] : [{ type: "summary_text", text }],
  encrypted_content: btoa(`simulated reasoning ${answer.serial}`),
})

/** A search says what it looked for once it is over. */
export const searchItem = (answer: Answer, index: number, status: Status) => ({
  id: `ws_${answer.serial}${index}`,
  type: "web_search_call",
  status,
  ...(status === "completed" ? { action: { type: "search", query: `search ${index}`, sources: [] } } : {}),
})

export const messageItem = (answer: Answer, content: Json[], status: Status) => ({
  id: `msg_${answer.serial}`,
  type: "message",
  status,
  role: "assistant",
  content,
})

export const saidPart = (answer: Answer, text: string) =>
  answer.refused ? { type: "refusal", refusal: text } : { type: "output_text", annotations: [], logprobs: [], text }

export const callItem = (call: ToolCall, given: string, status: Status) => {
  const { serial, name } = call
  const item = { status, call_id: `call_${serial}`, name }
  return call.custom
    ? { id: `ctc_${serial}`, type: "custom_tool_call", ...item, input: given }
    : { id: `fc_${serial}`, type: "function_call", ...item, arguments: given }
}
