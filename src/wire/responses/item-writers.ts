/**
 * One item of a streamed output, from its `added` to its `done`. Nothing is written for an item after it is closed, and
 * each part is closed before its item: every event that a client waits for comes, and none comes late.
 */
import type { JsonObject } from "../../language/json.ts"
import type { Seal } from "../../language/prompt.ts"
import { JsonProgress } from "../shared/json-gaps.ts"
import { isJson } from "../shared/tools.ts"
import {
  callItem,
  callText,
  type ClientCall,
  contentPart,
  type ContentType,
  type Identity,
  itemId,
  type ItemKind,
  messageItem,
  reasoningItem,
  type Status,
  summaryPart,
} from "./items-out.ts"

/** Writes one event; its number is the writer's concern, not the item's. */
export type Emit = (type: string, fields: JsonObject) => void

export interface Place {
  readonly emit: Emit
  readonly identity: Identity
  readonly outputIndex: number
}

abstract class ItemWriter {
  readonly id: string
  readonly #place: Place
  #closedAs: Status | undefined

  constructor(kind: ItemKind, place: Place) {
    this.id = itemId(kind, place.identity, place.outputIndex)
    this.#place = place
  }

  /** The item as it stands. */
  abstract item(status: Status): JsonObject
  /** Ends the part under way; an item without parts ends with it. */
  abstract endPart(): void
  protected abstract finish(): void

  get open(): boolean {
    return this.#closedAs === undefined
  }

  close(status: Status): void {
    if (!this.open) return
    this.finish()
    this.#closedAs = status
    this.emitItem("response.output_item.done", status)
  }

  /** The item as the client was told of it. */
  whole(): JsonObject {
    return this.item(this.#closedAs ?? "in_progress")
  }

  protected emitItem(type: string, status: Status): void {
    this.#place.emit(type, { output_index: this.#place.outputIndex, item: this.item(status) })
  }

  protected emit(type: string, fields: JsonObject): void {
    this.#place.emit(type, { item_id: this.id, output_index: this.#place.outputIndex, ...fields })
  }
}

export class MessageWriter extends ItemWriter {
  readonly #content: JsonObject[] = []
  #part: { readonly type: ContentType; text: string } | undefined

  constructor(place: Place) {
    super("msg", place)
    this.emitItem("response.output_item.added", "in_progress")
  }

  say(type: ContentType, text: string): void {
    if (this.#part?.type !== type) {
      this.endPart()
      this.#part = { type, text: "" }
      this.#emitPart("response.content_part.added", contentPart(type, ""))
    }
    this.#part.text += text
    this.emit(`response.${type}.delta`, { content_index: this.#content.length, delta: text, ...noLogprobs(type) })
  }

  endPart(): void {
    if (this.#part === undefined) return
    const { type, text } = this.#part
    const said = type === "refusal" ? { refusal: text } : { text }
    this.emit(`response.${type}.done`, { content_index: this.#content.length, ...said, ...noLogprobs(type) })
    const part = contentPart(type, text)
    this.#emitPart("response.content_part.done", part)
    this.#content.push(part)
    this.#part = undefined
  }

  item(status: Status): JsonObject {
    return messageItem(this.id, status, this.#content)
  }

  protected finish(): void {
    this.endPart()
  }

  #emitPart(type: string, part: JsonObject): void {
    this.emit(type, { content_index: this.#content.length, part })
  }
}

const noLogprobs = (type: ContentType): JsonObject => (type === "refusal" ? {} : { logprobs: [] })

export class ReasoningWriter extends ItemWriter {
  #text = ""
  #seal: Seal | undefined

  constructor(place: Place) {
    super("rs", place)
    this.emitItem("response.output_item.added", "in_progress")
  }

  say(text: string): void {
    if (this.#text === "")
      this.emit("response.reasoning_summary_part.added", { summary_index: 0, part: summaryPart("") })
    this.#text += text
    this.emit("response.reasoning_summary_text.delta", { summary_index: 0, delta: text })
  }

  seal(seal: Seal): void {
    this.#seal = seal
    this.close("completed")
  }

  endPart(): void {
    this.close("completed")
  }

  item(): JsonObject {
    return reasoningItem(this.id, this.#text, this.#seal)
  }

  protected finish(): void {
    if (this.#text === "") return
    this.emit("response.reasoning_summary_text.done", { summary_index: 0, text: this.#text })
    this.emit("response.reasoning_summary_part.done", { summary_index: 0, part: summaryPart(this.#text) })
  }
}

export class CallWriter extends ItemWriter {
  readonly #call: ClientCall
  readonly #progress = new JsonProgress()
  /** Its arguments came whole and are no JSON, whatever follows them. */
  #isBroken = false
  #text = ""

  constructor(place: Place, call: ClientCall) {
    super(call.custom ? "ctc" : "fc", place)
    this.#call = call
    this.emitItem("response.output_item.added", "in_progress")
  }

  /** Whether that said anything. */
  say(text: string): boolean {
    if (!this.open || text === "") return false
    this.#text += text
    if (!this.#call.custom) this.#progress.push(text)
    this.emit(`response.${this.#call.custom ? "custom_tool_call_input" : "function_call_arguments"}.delta`, {
      delta: text,
    })
    return true
  }

  /** A function's arguments that are not whole were cut off by what ends the answer, which says so. They are parsed once, however many parts end. */
  endPart(): void {
    if (this.#call.custom || this.#text === "") return this.close("completed")
    if (!this.open || this.#isBroken || !this.#progress.whole) return
    if (isJson(this.#text)) this.close("completed")
    else this.#isBroken = true
  }

  item(status: Status): JsonObject {
    return callItem(this.id, status, this.#call, this.#text)
  }

  protected finish(): void {
    if (this.#text === "") this.say(callText(this.#call.custom, ""))
    if (this.#call.custom) this.emit("response.custom_tool_call_input.done", { input: this.#text })
    else this.emit("response.function_call_arguments.done", { name: this.#call.name, arguments: this.#text })
  }
}
