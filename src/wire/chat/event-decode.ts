/**
 * A chat backend's stream as neutral events. Only its first choice is read: more than one is never asked for here. The
 * format's own reader (stream.ts) sees every event before, so a broken one is its to report.
 */
import type { ModelEvent } from "../../language/event.ts"
import { isObject, type JsonObject } from "../../language/json.ts"
import type { Prompt } from "../../language/prompt.ts"
import { classifyErrorObject } from "../backend-error.ts"
import type { EventDecoder } from "../codec.ts"
import { eventObject, type SseEvent } from "../sse.ts"
import { filled } from "../steps.ts"
import { CallReader } from "./calls-decode.ts"
import { readFinish } from "./finish.ts"
import { readSaid } from "./said.ts"
import { isError } from "./stream.ts"
import { toolNames } from "./tool-names.ts"
import { readUsage } from "./usage.ts"

export const eventDecoder = (prompt: Prompt): EventDecoder => new ChatEventDecoder(prompt)

class ChatEventDecoder implements EventDecoder {
  readonly #stopSequences: readonly string[]
  readonly #calls: CallReader
  #id: string | undefined
  #finished = false
  #ended = false

  constructor(prompt: Prompt) {
    this.#stopSequences = prompt.stopSequences
    this.#calls = new CallReader(toolNames(prompt))
  }

  decode(event: SseEvent): ModelEvent[] {
    if (this.#ended || event.data === "") return []
    if (event.data === "[DONE]") {
      this.#ended = true
      return [...this.#finish({}), { type: "end" }]
    }
    const chunk = eventObject(event)
    if (chunk === undefined) return []
    if (isError(event, chunk)) {
      this.#ended = true
      return [{ type: "failure", failure: classifyErrorObject(chunk) }]
    }
    return [...this.#start(chunk), ...this.#choice(chunk), ...usageEvents(chunk)]
  }

  #start(chunk: JsonObject): ModelEvent[] {
    if (this.#id !== undefined) return []
    this.#id = typeof chunk.id === "string" ? chunk.id : ""
    return [{ type: "start", id: this.#id === "" ? undefined : this.#id, usage: undefined }]
  }

  #choice(chunk: JsonObject): ModelEvent[] {
    if (!Array.isArray(chunk.choices) || this.#finished) return []
    const choice = chunk.choices.filter(isObject).find(({ index }) => typeof index !== "number" || index === 0)
    if (choice === undefined) return []
    const events = isObject(choice.delta) ? this.#delta(choice.delta) : []
    return filled(choice.finish_reason) ? [...events, ...this.#finish(choice)] : events
  }

  #delta(delta: JsonObject): ModelEvent[] {
    const events: ModelEvent[] = []
    const said = readSaid(delta)
    if (said.thinking !== "") events.push({ type: "thinking-delta", text: said.thinking })
    if (said.text !== "") events.push({ type: "text-delta", text: said.text })
    if (said.refusal !== "") events.push({ type: "refusal-delta", text: said.refusal })
    if (!Array.isArray(delta.tool_calls)) return events
    for (const piece of delta.tool_calls) if (isObject(piece)) events.push(...this.#calls.take(piece, this.#id ?? ""))
    return events
  }

  /** Once: at the backend's word, or at the latest at the end of a stream that never gave a reason. */
  #finish(choice: JsonObject): ModelEvent[] {
    if (this.#finished) return []
    this.#finished = true
    return [...this.#calls.close(), { type: "finish", ...readFinish(choice, this.#calls.called, this.#stopSequences) }]
  }
}

function usageEvents(chunk: JsonObject): ModelEvent[] {
  const usage = readUsage(chunk.usage)
  return usage === undefined ? [] : [{ type: "usage", usage }]
}
