/**
 * Reads one messages stream: `message_start` … `message_stop`. Only `message_start` names the model, so every other
 * event goes out with the exact text it came with.
 */
import { isObject, type JsonObject, present } from "../../language/json.ts"
import { Failure } from "../../failure/failure.ts"
import { classifyErrorObject } from "../backend-error.ts"
import type { ClientView, StreamReader, StreamStep } from "../format.ts"
import { encodeSse, eventObject, type SseEvent } from "../sse.ts"
import { filled, Steps } from "../steps.ts"
import { ofAnswer } from "../tokens.ts"
import { laterUsage, startUsage, usageTokens } from "./usage.ts"

export const streamReader = (view: ClientView): StreamReader => {
  const steps = new Steps()
  let usage: JsonObject | undefined

  const read = (event: SseEvent): StreamStep => {
    if (steps.ended || event.data === "") return steps.nothing()
    const body = eventObject(event)
    if (body === undefined) return steps.failure(new Failure("dependency.upstream_unavailable"))
    const type = typeof body.type === "string" ? body.type : event.event
    // The SDKs go by the event's name, which some compatible backends leave out.
    const name = event.event === "" ? type : event.event
    if (type === "error" || present(body.error)) return steps.failure(classifyErrorObject(body))
    if (type === "message_stop") return steps.terminal(encodeSse(name, event.data))
    if (type === "message_start" && isObject(body.message)) {
      usage = startUsage(body.message.usage)
      return steps.step(false, encodeSse(name, startData(event, body, body.message, view)))
    }
    if (type === "message_delta") usage = laterUsage(usage ?? {}, body.usage)
    return steps.step(hasContent(type, body), encodeSse(name, event.data))
  }
  return { read, tokens: () => ofAnswer(usageTokens(usage), steps.hasContent), position: () => undefined }
}

const startData = (event: SseEvent, body: JsonObject, message: JsonObject, view: ClientView): string =>
  message.model === view.model ? event.data : JSON.stringify({ ...body, message: { ...message, model: view.model } })

const hasContent = (type: string, body: JsonObject): boolean => {
  if (type === "content_block_delta") return isObject(body.delta) && isContent(body.delta)
  if (type === "content_block_start") return isObject(body.content_block) && isContentBlock(body.content_block)
  return false
}

/** Whatever a delta is called, it brings something unless it is empty. A signature only seals what came before it. */
const isContent = (delta: JsonObject): boolean =>
  delta.type !== "signature_delta" &&
  Object.entries(delta).some(([key, value]) => key !== "type" && (filled(value) || isObject(value)))

/** Text and thinking blocks start empty; a tool's name, or a server tool's whole result, comes with the start. */
export const isContentBlock = (block: JsonObject): boolean =>
  filled(block.text) || filled(block.thinking) || filled(block.name) || filled(block.content) || isObject(block.content)
