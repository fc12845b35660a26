/**
 * Puts the parts of an answer one after the other, as this format has them: the first open block streams, and what comes
 * for others meanwhile (parallel tool calls whose pieces interleave) waits until it is over. A text is over when another
 * part begins; a tool call when its arguments are whole and another part has begun, or when the answer ends.
 */
import type { JsonObject } from "../../language/json.ts"
import { JsonProgress } from "../shared/json-gaps.ts"

export interface BlockEvent {
  readonly type: "content_block_start" | "content_block_delta" | "content_block_stop"
  readonly index: number
  readonly body: JsonObject
  /** It carries something that a client can use. */
  readonly content: boolean
}

export interface Block {
  readonly kind: "text" | "refusal" | "thinking" | "redacted" | "tool"
  readonly start: JsonObject
  /** Deltas that wait for the blocks before this one. */
  waiting: Delta[]
  /** Nothing more comes for it. */
  ended: boolean
  /** Of thinking: its signature has come. */
  signed: boolean
  readonly json: JsonProgress | undefined
}

interface Delta {
  readonly body: JsonObject
  readonly content: boolean
}

/** Some SDKs read a signature from its delta alone, and leave thinking out of the next turn that never had one. */
const UNSIGNED: JsonObject = { type: "signature_delta", signature: "" }

export class BlockQueue {
  readonly #blocks: Block[] = []
  #index = 0
  #started = false

  /** The part that began last, while more may come for it. */
  get last(): Block | undefined {
    const last = this.#blocks.at(-1)
    return last === undefined || last.ended ? undefined : last
  }

  begin(kind: Block["kind"], start: JsonObject): Block {
    const last = this.last
    if (last !== undefined && last.kind !== "tool") last.ended = true
    const block: Block = {
      kind,
      start,
      waiting: [],
      ended: false,
      signed: false,
      json: kind === "tool" ? new JsonProgress() : undefined,
    }
    this.#blocks.push(block)
    return block
  }

  /** Never a delta after its block's stop: what comes for a block that is over is dropped. */
  add(block: Block, body: JsonObject, content: boolean): void {
    if (block.ended) return
    block.waiting.push({ body, content })
    if (body["type"] === "signature_delta") block.signed = true
  }

  endAll(): void {
    for (const block of this.#blocks) block.ended = true
  }

  /** What can be sent by now. */
  *drain(): Generator<BlockEvent> {
    for (let head = this.#blocks[0]; head !== undefined; head = this.#blocks[0]) {
      const index = this.#index
      if (!this.#started) {
        this.#started = true
        yield { type: "content_block_start", index, body: { content_block: head.start }, content: head.kind === "tool" }
      }
      for (const { body, content } of head.waiting) {
        yield { type: "content_block_delta", index, body: { delta: body }, content }
      }
      head.waiting = []
      if (!head.ended && !(this.#blocks.length > 1 && head.json?.whole === true)) return
      head.ended = true
      if (head.kind === "thinking" && !head.signed)
        yield { type: "content_block_delta", index, body: { delta: UNSIGNED }, content: false }
      this.#blocks.shift()
      this.#started = false
      this.#index++
      yield { type: "content_block_stop", index, body: {}, content: false }
    }
  }
}
