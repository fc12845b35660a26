/**
 * Reads one responses stream: numbered `response.*` events until `completed` or `incomplete`. Usage stands in whichever
 * event closes the stream, a failed one too. The reader keeps the answer's identity and the count of its events, because
 * a failure that the gateway adds has to continue both.
 */
import { isObject, type Json, type JsonObject, present } from "../../language/json.ts"
import { Failure } from "../../failure/failure.ts"
import { classifyErrorObject } from "../backend-error.ts"
import type { ClientView, StreamPosition, StreamReader, StreamStep } from "../format.ts"
import { encodeSse, eventObject, type SseEvent } from "../sse.ts"
import { filled, Steps } from "../steps.ts"
import { ofAnswer } from "../tokens.ts"
import { usageTokens } from "./usage.ts"

export const streamReader = (view: ClientView): StreamReader => {
  const steps = new Steps()
  let usage: Json | undefined
  let position: StreamPosition = { sequence: 0, id: undefined, createdAt: undefined }

  const read = (event: SseEvent): StreamStep => {
    if (steps.ended || event.data === "") return steps.nothing()
    const body = eventObject(event)
    if (body === undefined) return steps.failure(new Failure("dependency.upstream_unavailable"))
    const type = typeof body.type === "string" ? body.type : event.event
    const response = isObject(body.response) ? body.response : undefined
    if (isObject(response?.usage)) usage = response.usage
    const error = failureOf(type, body, response)
    if (error !== undefined) return steps.failure(error)
    position = advanced(position, body, response)
    const name = event.event === "" ? type : event.event
    const bytes = encodeSse(name, eventData(event, body, response, view))
    if (type === "response.completed" || type === "response.incomplete") return steps.terminal(bytes)
    return steps.step(hasContent(type, body), bytes)
  }
  return { read, tokens: () => ofAnswer(usageTokens(usage), steps.hasContent), position: () => position }
}

export const failureOf = (type: string, body: JsonObject, response: JsonObject | undefined): Failure | undefined => {
  // A named event's own `error` is about one of its tools, not about the stream.
  if (type === "error" || (present(body.error) && !type.startsWith("response."))) return classifyErrorObject(body)
  if (type === "response.failed") return classifyErrorObject({ error: response?.error })
  if (type === "response.cancelled") return new Failure("dependency.upstream_unavailable")
  return undefined
}

const advanced = (position: StreamPosition, body: JsonObject, response: JsonObject | undefined): StreamPosition => {
  const number = body.sequence_number
  const sequence = typeof number === "number" && Number.isSafeInteger(number) ? number + 1 : position.sequence + 1
  if (response === undefined) return { ...position, sequence }
  return {
    sequence,
    id: typeof response.id === "string" ? response.id : position.id,
    createdAt: typeof response.created_at === "number" ? response.created_at : position.createdAt,
  }
}

const eventData = (event: SseEvent, body: JsonObject, response: JsonObject | undefined, view: ClientView): string =>
  response === undefined || response.model === undefined || response.model === view.model
    ? event.data
    : JSON.stringify({ ...body, response: { ...response, model: view.model } })

/** A delta of any kind brings its text in `delta`; what is not streamed in deltas comes with its item or its `done`. */
const hasContent = (type: string, body: JsonObject): boolean => {
  if (type.endsWith(".delta")) return filled(body.delta)
  if (type.endsWith(".done"))
    return (
      filled(body.text) ||
      filled(body.refusal) ||
      filled(body.arguments) ||
      filled(body.input) ||
      isContentItem(body.item)
    )
  if (type === "response.output_item.added") return isContentItem(body.item)
  return filled(body.partial_image_b64)
}

/** A call names its tool at once. Messages and reasoning start empty; searches are work, not output. */
export const isContentItem = (item: Json | undefined): boolean =>
  isObject(item) && (filled(item.name) || filled(item.result) || hasText(item.content) || hasText(item.summary))

const hasText = (parts: Json | undefined): boolean =>
  Array.isArray(parts) && parts.some((part) => isObject(part) && (filled(part.text) || filled(part.refusal)))
