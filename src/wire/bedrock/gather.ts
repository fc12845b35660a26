/** A ConverseStream put together into the answer of Converse. */
import { readText } from "../shared/text.ts"
import { isObject, type Json, type JsonObject } from "../../language/json.ts"
import type { Gatherer } from "../format.ts"
import type { SseEvent } from "../sse.ts"

export const gatherer = (): Gatherer => new ConverseGatherer()

/** What has come of a block; one is of text, of thinking, or a call. */
interface Block {
  text: string
  thinking: string
  signature: string
  redacted: string
  call: JsonObject | undefined
  /** The pieces of a call's input. */
  json: string
}

class ConverseGatherer implements Gatherer {
  readonly #blocks = new Map<Json | undefined, Block>()
  #role: Json = "assistant"
  #end: JsonObject = {}
  #metadata: JsonObject = {}

  take({ event }: SseEvent, body: JsonObject = {}): void {
    switch (event) {
      case "messageStart":
        this.#role = body["role"] ?? this.#role
        return
      case "contentBlockStart":
        if (isObject(body["start"]) && isObject(body["start"]["toolUse"]))
          this.#at(body["contentBlockIndex"]).call = body["start"]["toolUse"]
        return
      case "contentBlockDelta":
        if (isObject(body["delta"])) grow(this.#at(body["contentBlockIndex"]), body["delta"])
        return
      case "messageStop":
        this.#end = body
        return
      case "metadata":
        this.#metadata = body
    }
  }

  reply(): JsonObject {
    const content = [...this.#blocks.values()].flatMap(blockOf)
    return { output: { message: { role: this.#role, content } }, ...this.#end, ...this.#metadata }
  }

  #at(index: Json | undefined): Block {
    const known = this.#blocks.get(index)
    if (known !== undefined) return known
    const block: Block = { text: "", thinking: "", signature: "", redacted: "", call: undefined, json: "" }
    this.#blocks.set(index, block)
    return block
  }
}

function grow(block: Block, { text, toolUse, reasoningContent: thinking }: JsonObject): void {
  block.text += readText(text)
  if (isObject(toolUse)) block.json += readText(toolUse["input"])
  if (!isObject(thinking)) return
  block.thinking += readText(thinking["text"])
  block.signature += readText(thinking["signature"])
  block.redacted += readText(thinking["redactedContent"])
}

function blockOf({ text, thinking, signature, redacted, call, json }: Block): JsonObject[] {
  if (call !== undefined) return [{ toolUse: { ...call, input: inputOf(json) } }]
  if (redacted !== "") return [{ reasoningContent: { redactedContent: redacted } }]
  if (thinking !== "" || signature !== "")
    return [{ reasoningContent: { reasoningText: { text: thinking, ...(signature !== "" && { signature }) } } }]
  return text === "" ? [] : [{ text }]
}

/** Input that the limit cut off is none. */
function inputOf(json: string): Json {
  if (json === "") return {}
  try {
    return JSON.parse(json) as Json
  } catch {
    return {}
  }
}
