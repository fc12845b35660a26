/**
 * A ConverseStream: `messageStart` … `messageStop`, and then `metadata` with the counts, which is the end. Calls of tools are
 * put together by the reader that chat has: pieces of arguments under an index.
 */
import { type Json, type JsonObject, filled, isObject, isText } from "../../language/json.ts"
import type { Tokens } from "../../../actors/money/price.ts"
import type { ModelEvent, Prompt } from "../../language/prompt.ts"
import { classifyErrorObject } from "../backend-error.ts"
import { CallReader, NARROW, toolNames } from "../shared/tools.ts"
import type { BackendStream, ClientView, EventMeaning } from "../format.ts"
import type { SseEvent } from "../sse.ts"
import { plausibleTokens } from "../tokens.ts"
import { readFinish, readUsage, usageTokens } from "./reply.ts"

export const backendStream = (_: ClientView, prompt?: Prompt): BackendStream => new ConverseStream(prompt)

/** No client speaks it, so nothing of it is sent as it is. */
class ConverseStream implements BackendStream {
  readonly openPlaces = { texts: new Set<string>(), ofStream: new Set<string>() }
  readonly #decoder: EventDecoder | undefined
  #usage: Json | undefined

  constructor(prompt: Prompt | undefined) {
    this.#decoder = prompt && new EventDecoder(prompt)
  }

  meaning({ event }: SseEvent, body: JsonObject): EventMeaning {
    if (event === "error") return classifyErrorObject(body)
    if (event === "metadata") {
      this.#usage = body["usage"]
      return "terminal"
    }
    return hasContent(event, body) ? "content" : "empty"
  }

  relayed(): undefined {
    return undefined
  }

  events(event: SseEvent, body: JsonObject | undefined): readonly ModelEvent[] {
    return this.#decoder?.decode(event, body) ?? []
  }

  onPassedThrough(): void {}

  tokens(hasContent: boolean): Tokens | undefined {
    return plausibleTokens(usageTokens(this.#usage), hasContent)
  }

  /** Converse has no search of its own. */
  searches(): number {
    return 0
  }

  position(): undefined {
    return undefined
  }
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

class EventDecoder {
  readonly #stopSequences: readonly string[]
  readonly #calls: CallReader

  constructor(prompt: Prompt) {
    this.#stopSequences = prompt.stopSequences
    this.#calls = new CallReader(toolNames(prompt, NARROW))
  }

  decode(event: SseEvent, body: JsonObject = {}): ModelEvent[] {
    switch (event.event) {
      case "messageStart":
        return [{ type: "start", id: undefined, usage: undefined }]
      case "contentBlockStart":
        return this.#start(body)
      case "contentBlockDelta":
        return this.#delta(body)
      case "contentBlockStop":
        return [{ type: "part-end" }]
      case "messageStop": {
        const last = this.#calls.close()
        return [...last, { type: "finish", ...readFinish(body["stopReason"], this.#calls.called, this.#stopSequences) }]
      }
      case "metadata": {
        const usage = readUsage(body["usage"])
        return usage === undefined ? [{ type: "end" }] : [{ type: "usage", usage }, { type: "end" }]
      }
      default:
        return []
    }
  }

  #start({ start, contentBlockIndex: index }: JsonObject): ModelEvent[] {
    const call = isObject(start) ? start["toolUse"] : undefined
    if (!isObject(call)) return []
    return this.#calls.take({ index, id: call["toolUseId"], function: { name: call["name"] } }, "")
  }

  #delta({ delta, contentBlockIndex: index }: JsonObject): ModelEvent[] {
    if (!isObject(delta)) return []
    const { text, toolUse, reasoningContent } = delta
    if (isObject(toolUse)) return this.#calls.take({ index, function: { arguments: toolUse["input"] } }, "")
    if (isObject(reasoningContent)) return thinkingEvents(reasoningContent)
    return isText(text) ? [{ type: "text-delta", text }] : []
  }
}

/** The vendor that signs its thinking signs it the same in each of its formats; other vendors here sign nothing. */
function thinkingEvents({ text, signature, redactedContent }: JsonObject): ModelEvent[] {
  const events: ModelEvent[] = []
  if (isText(text)) events.push({ type: "thinking-delta", text })
  if (isText(signature)) events.push({ type: "thinking-seal", seal: { by: "messages", data: signature } })
  if (isText(redactedContent))
    events.push({ type: "thinking-seal", seal: { by: "messages-redacted", data: redactedContent } })
  return events
}
