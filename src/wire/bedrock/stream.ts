/**
 * Reads one ConverseStream: `messageStart` … `messageStop`, and then `metadata` with the counts, which is the end. Nothing
 * of it is for a client as it is, so the steps carry no bytes: what was said is read by the event decoder.
 */
import { isObject, type Json, type JsonObject } from "../../language/json.ts"
import { Failure } from "../../failure/failure.ts"
import { classifyErrorObject } from "../backend-error.ts"
import type { StreamReader, StreamStep } from "../format.ts"
import { eventObject, type SseEvent } from "../sse.ts"
import { filled, Steps } from "../steps.ts"
import { ofAnswer } from "../tokens.ts"
import { usageTokens } from "./usage.ts"

export const streamReader = (): StreamReader => {
  const steps = new Steps()
  let usage: Json | undefined

  const read = (event: SseEvent): StreamStep => {
    if (steps.ended) return steps.nothing()
    const body = eventObject(event)
    if (body === undefined) return steps.failure(new Failure("dependency.upstream_unavailable"))
    if (event.event === "error") return steps.failure(classifyErrorObject(body))
    if (event.event === "metadata") {
      usage = body["usage"]
      return steps.terminal("")
    }
    return steps.step(hasContent(event.event, body), "")
  }
  return { read, tokens: () => ofAnswer(usageTokens(usage), steps.hasContent), position: () => undefined }
}

const hasContent = (type: string, body: JsonObject): boolean => {
  if (type === "contentBlockStart") return isObject(body["start"]) && isObject(body["start"]["toolUse"])
  return type === "contentBlockDelta" && isObject(body["delta"]) && isContent(body["delta"])
}

/** A signature only seals the thinking before it. */
const isContent = ({ text, toolUse, reasoningContent: thinking }: JsonObject): boolean =>
  filled(text) ||
  (isObject(toolUse) && filled(toolUse["input"])) ||
  (isObject(thinking) && (filled(thinking["text"]) || filled(thinking["redactedContent"])))
