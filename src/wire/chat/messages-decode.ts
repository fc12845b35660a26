/**
 * The messages of a chat request, into instructions and turns. A run of tool messages is one user turn of results. The
 * older `function_call` had no ids: a call gets one from its place in the conversation, which stays as that grows.
 */
import { isObject, type JsonObject, present } from "../../language/json.ts"
import type { AssistantPart, TextPart, ToolCallPart, ToolResultPart, Turn } from "../../language/prompt.ts"
import { misshapen, readObjects, shown } from "../../language/shape.ts"
import { Failure } from "../../failure/failure.ts"
import { filled } from "../steps.ts"
import { readContent, readSaid, readTexts } from "./parts-decode.ts"

export interface Conversation {
  readonly instructions: readonly TextPart[]
  readonly turns: readonly Turn[]
}

export function readConversation(messages: readonly JsonObject[]): Conversation | Failure {
  const instructions: TextPart[] = []
  const turns: Turn[] = []
  /** The results of the run of tool messages under way. */
  let results: ToolResultPart[] = []
  let functionCall: string | undefined
  for (const [index, message] of messages.entries()) {
    const field = `messages[${index}]`
    const { role } = message
    if (role === "tool" || role === "function") {
      const callId = role === "tool" ? message.tool_call_id : functionCall
      const result = readResult(message, callId, field)
      if (result instanceof Failure) return result
      if (results.length === 0) turns.push({ role: "user", parts: results })
      results.push(result)
      continue
    }
    results = []
    if (role === "user") {
      const parts = readContent(message.content, field)
      if (parts instanceof Failure) return parts
      turns.push({ role, parts })
    } else if (role === "assistant") {
      const parts = readAssistant(message, field, `call_${index}`)
      if (parts instanceof Failure) return parts
      if (present(message.function_call)) functionCall = `call_${index}`
      if (parts.length > 0) turns.push({ role, parts })
    } else {
      const texts = readTexts(message.content, field)
      if (texts instanceof Failure) return texts
      if (turns.length === 0) for (const text of texts) instructions.push(text)
      else if (texts.length > 0) turns.push({ role: "system", parts: texts })
    }
  }
  return { instructions, turns }
}

function readResult(message: JsonObject, callId: JsonObject[string], field: string): ToolResultPart | Failure {
  if (typeof callId !== "string" || callId === "")
    return message.role === "tool"
      ? misshapen(`'${field}.tool_call_id' is ${shown(callId)}; it must be the id of a tool call.`)
      : misshapen(`'${field}' answers a function that no message before it calls.`)
  const parts = readContent(message.content, field)
  if (parts instanceof Failure) return parts
  return { type: "tool-result", callId, parts, isError: false }
}

function readAssistant(message: JsonObject, field: string, functionCallId: string): AssistantPart[] | Failure {
  const said = readSaid(message.content, field)
  if (said instanceof Failure) return said
  const calls = readObjects(message.tool_calls, `${field}.tool_calls`)
  if (calls instanceof Failure) return calls
  // Thinking comes first, as it was thought first; it carries no seal, for this format has none.
  const thinking = [message.reasoning_content, message.reasoning].find(filled)
  const parts: AssistantPart[] =
    typeof thinking === "string" ? [{ type: "thinking", text: thinking, seal: undefined }] : []
  for (const part of said) parts.push(part)
  if (typeof message.refusal === "string" && message.refusal !== "")
    parts.push({ type: "refusal", text: message.refusal })
  for (const [index, call] of calls.entries()) {
    const where = `${field}.tool_calls[${index}]`
    const part = readCall(call, call.id, where)
    if (part instanceof Failure) return part
    parts.push(part)
  }
  if (!present(message.function_call)) return parts
  const older = readCall({ function: message.function_call }, functionCallId, `${field}.function_call`)
  return older instanceof Failure ? older : [...parts, older]
}

function readCall(call: JsonObject, id: JsonObject[string], field: string): ToolCallPart | Failure {
  if (typeof id !== "string" || id === "")
    return misshapen(`'${field}.id' is ${shown(id)}; it must be a string that is not empty.`)
  const custom = call.type === "custom"
  const said = custom ? call.custom : call.function
  if (!isObject(said)) return misshapen(`'${field}' names no function; it must be an object that does.`)
  const { name } = said
  if (typeof name !== "string" || name === "")
    return misshapen(`'${field}' has a name that is ${shown(name)}; it must be a string that is not empty.`)
  const text = custom ? said.input : said.arguments
  if (present(text) && typeof text !== "string")
    return misshapen(`'${field}' has arguments that are ${shown(text)}; they must be a string.`)
  const none = custom ? "" : "{}"
  return { type: "tool-call", id, name, arguments: text === "" ? none : (text ?? none), custom }
}
