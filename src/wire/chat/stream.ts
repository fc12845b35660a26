/**
 * Reads one chat-completions stream: `data:` chunks until `[DONE]`. A chunk is written anew only when its model or usage
 * changes; whatever else it holds travels untouched.
 */
import { isObject, type Json, type JsonObject, present } from "../../language/json.ts"
import { Failure } from "../../failure/failure.ts"
import { classifyErrorObject } from "../backend-error.ts"
import type { ClientView, StreamReader, StreamStep } from "../format.ts"
import { encodeSse, eventObject, type SseEvent } from "../sse.ts"
import { filled, Steps } from "../steps.ts"
import { ofAnswer } from "../tokens.ts"
import { usageTokens } from "./usage.ts"

export const streamReader = (view: ClientView): StreamReader => {
  const steps = new Steps()
  let usage: Json | undefined

  const read = (event: SseEvent): StreamStep => {
    if (steps.ended || event.data === "") return steps.nothing()
    if (event.data === "[DONE]") return steps.terminal(encodeSse("", "[DONE]"))
    const chunk = eventObject(event)
    if (chunk === undefined) return steps.failure(new Failure("dependency.upstream_unavailable"))
    if (isError(event, chunk)) return steps.failure(classifyErrorObject(chunk))
    // Some backends count in every chunk; the last count is the whole.
    if (isObject(chunk.usage)) usage = chunk.usage
    return steps.step(hasContent(chunk), chunkBytes(event, chunk, view))
  }
  return { read, tokens: () => ofAnswer(usageTokens(usage), steps.hasContent), position: () => undefined }
}

/** Besides a top-level `error`: an event named so, and the bare error object of older vLLM. */
export const isError = (event: SseEvent, chunk: JsonObject): boolean =>
  present(chunk.error) || event.event === "error" || chunk.object === "error"

const chunkBytes = (event: SseEvent, chunk: JsonObject, view: ClientView): string => {
  let changed = false
  if (!view.includeUsage && chunk.usage !== undefined) {
    // The backend was asked for usage whether or not the client asked (decisions §6).
    if (isObject(chunk.usage) && !filled(chunk.choices)) return ""
    chunk.usage = undefined
    changed = true
  }
  if (chunk.model !== undefined && chunk.model !== view.model) {
    chunk.model = view.model
    changed = true
  }
  return encodeSse(event.event, changed ? JSON.stringify(chunk) : event.data)
}

const hasContent = ({ choices }: JsonObject): boolean =>
  Array.isArray(choices) &&
  choices.some((choice) => isObject(choice) && isObject(choice.delta) && isContent(choice.delta))

/** Of a delta, or of a whole message. */
export const isContent = (delta: JsonObject): boolean =>
  filled(delta.content) ||
  filled(delta.reasoning_content) ||
  filled(delta.reasoning) ||
  filled(delta.refusal) ||
  isCall(delta.function_call) ||
  (Array.isArray(delta.tool_calls) && delta.tool_calls.some(isToolCall)) ||
  (isObject(delta.audio) && (filled(delta.audio.data) || filled(delta.audio.transcript)))

const isToolCall = (call: Json): boolean => isObject(call) && (isCall(call.function) || isCall(call.custom))

const isCall = (call: Json | undefined): boolean =>
  isObject(call) && (filled(call.name) || filled(call.arguments) || filled(call.input))
