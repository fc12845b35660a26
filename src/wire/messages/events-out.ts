/**
 * Events as the stream that a messages client reads: `message_start`, blocks one after the other, `message_delta`,
 * `message_stop`. The reason of the end and the usage leave together at the end, because the SDKs take what the last
 * `message_delta` says for the whole truth. A failure is the format's own `error` event (decisions §6, §12.8).
 */
import type { Failure } from "../../failure/failure.ts"
import type { FinishReason, ModelEvent, Seal, Usage } from "../../language/prompt.ts"
import { isObject, type JsonObject } from "../../language/json.ts"
import type { ModelRequest } from "../../language/request.ts"
import type { AnswerView, EventEncoder, FailureContext, SentStep } from "../format.ts"
import { encodeSse, messagesErrorType, messageWithHint } from "../sse.ts"
import { Steps } from "../backend-stream.ts"
import { type Block, BlockQueue } from "./block-queue.ts"
import { seal } from "./content.ts"
import { encodeEnding, encodeUsage, promptUsage } from "./usage.ts"

interface Tool {
  readonly block: Block
  readonly custom: boolean
}

export const eventEncoder = (view: AnswerView): EventEncoder => new MessagesEventEncoder(view)

class MessagesEventEncoder implements EventEncoder {
  readonly #view: AnswerView
  readonly #reportsThinking: boolean
  readonly #carriesThinking: boolean
  /** Thinking that the client is to carry and not to read, until a call needs it. */
  #carried = ""
  readonly #steps = new Steps()
  readonly #queue = new BlockQueue()
  readonly #tools = new Map<number, Tool>()
  /** Blocks of tools that take free text. */
  readonly #customs = new Set<Block>()
  #started = false
  #refused = false
  #finish: FinishReason = "stop"
  #stopSequence: string | undefined
  #usage: Usage | undefined

  constructor(view: AnswerView) {
    this.#view = view
    this.#reportsThinking = reportsThinking(view.request)
    this.#carriesThinking = carriesThinking(view.request)
  }

  encode(event: ModelEvent): SentStep[] {
    if (this.#steps.ended) return []
    const opening = this.#start(event)
    this.#take(event)
    const blocks = this.#blocks()
    return event.type === "end" ? [...opening, ...blocks, ...this.#end()] : [...opening, ...blocks]
  }

  #start(event: ModelEvent): SentStep[] {
    if (this.#started) return []
    this.#started = true
    const { id, usage } = event.type === "start" ? event : {}
    const counted = usage?.tokens ?? { input: this.#view.inputTokens, cacheRead: 0, cacheWrite: 0 }
    const message = {
      id: messageId(id, this.#view),
      type: "message",
      role: "assistant",
      model: this.#view.model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: { ...promptUsage(counted), output_tokens: 0 },
    }
    return [this.#step(false, "message_start", { message })]
  }

  /** Takes note of an event; what can be sent of it is then in the queue. */
  #take(event: ModelEvent): void {
    switch (event.type) {
      case "text-delta":
        return this.#text("text", event.text)
      case "refusal-delta":
        this.#refused = true
        return this.#text("refusal", event.text)
      case "thinking-delta":
        return this.#thinking(event.text)
      case "thinking-seal":
        return this.#seal(event.seal)
      case "tool-call-start":
        return this.#startTool(event)
      case "tool-call-delta":
        return this.#toolInput(event.index, event.arguments)
      case "part-end":
        return this.#endPart()
      case "finish":
        this.#finish = event.reason
        this.#stopSequence = event.stopSequence
        return this.#endParts()
      case "usage":
        this.#usage = event.usage
        return undefined
      case "end":
        return this.#endParts()
      case "start":
        return undefined
    }
  }

  #text(kind: "text" | "refusal", text: string): void {
    if (text === "") return
    const block = this.#openOr(kind, { type: "text", text: "" })
    this.#queue.add(block, { type: "text_delta", text }, true)
  }

  #thinking(thinking: string): void {
    if (this.#carriesThinking) this.#carried += thinking
    if (thinking === "" || !this.#reportsThinking) return
    const block = this.#openOr("thinking", { type: "thinking", thinking: "", signature: "" })
    this.#queue.add(block, { type: "thinking_delta", thinking }, true)
  }

  /** Only what a messages backend sealed can be sent back to one; a signature is never made up. */
  #seal({ by, data }: Seal): void {
    this.#carried = ""
    if (by === "responses") return this.#endThinking()
    if (by === "messages-redacted") {
      this.#queue.begin("redacted", { type: "redacted_thinking", data }).ended = true
      return
    }
    this.#sign(data)
  }

  /** What is thought after its seal is another thought. */
  #endThinking(): void {
    const { last } = this.#queue
    if (last?.kind === "thinking") last.ended = true
  }

  #sign(signature: string): void {
    const block = this.#openOr("thinking", { type: "thinking", thinking: "", signature: "" })
    this.#queue.add(block, { type: "signature_delta", signature }, false)
    block.ended = true
  }

  #openOr(kind: Block["kind"], start: JsonObject): Block {
    const { last } = this.#queue
    return last?.kind === kind ? last : this.#queue.begin(kind, start)
  }

  #startTool({ index, id, name, custom }: Extract<ModelEvent, { type: "tool-call-start" }>): void {
    if (this.#carried !== "") this.#sign(seal(this.#carried))
    this.#carried = ""
    const block = this.#queue.begin("tool", { type: "tool_use", id, name, input: {} })
    this.#tools.set(index, { block, custom })
    if (!custom) return
    this.#customs.add(block)
    this.#addInput(block, '{"input":"')
  }

  #toolInput(index: number, text: string): void {
    const tool = this.#tools.get(index)
    if (tool === undefined || text === "") return
    this.#addInput(tool.block, tool.custom ? JSON.stringify(text).slice(1, -1) : text)
  }

  #addInput(block: Block, json: string): void {
    block.json?.push(json)
    this.#queue.add(block, { type: "input_json_delta", partial_json: json }, true)
  }

  #endPart(): void {
    const { last } = this.#queue
    if (last === undefined) return
    if (this.#customs.has(last)) this.#addInput(last, '"}')
    last.ended = true
  }

  #endParts(): void {
    for (const block of this.#customs) if (!block.ended) this.#addInput(block, '"}')
    this.#queue.endAll()
  }

  #blocks(): SentStep[] {
    return [...this.#queue.drain()].map(({ type, index, body, content }) =>
      this.#step(content, type, { index, ...body }),
    )
  }

  #end(): SentStep[] {
    const ending = encodeEnding({
      finish: this.#finish,
      stopSequence: this.#stopSequence,
      refused: this.#refused,
      tools: this.#toolsState(),
    })
    const usage = this.#usage === undefined ? { output_tokens: 0 } : encodeUsage(this.#usage)
    return [
      this.#step(false, "message_delta", { delta: ending, usage }),
      this.#steps.terminal(encodeSse("message_stop", JSON.stringify({ type: "message_stop" }))),
    ]
  }

  #toolsState(): "none" | "complete" | "cut-off" {
    const blocks = [...this.#tools.values()].map(({ block }) => block)
    if (blocks.length === 0) return "none"
    return blocks.every(({ json }) => json?.whole === true) ? "complete" : "cut-off"
  }

  #step(content: boolean, type: string, fields: JsonObject): SentStep {
    return this.#steps.step(content, encodeSse(type, JSON.stringify({ type, ...fields })))
  }
}

// What an answer says to a messages client beside what the backend said.

/** An id of this format's own kind is kept; else the answer is named after the request. */
export const messageId = (id: string | undefined, { requestId }: Pick<AnswerView, "requestId">): string =>
  id?.startsWith("msg_") === true ? id : `msg_${requestId.replace(/^req_/, "")}`

/**
 * Whether the client is to read thinking. Only one that asked for it is: others read the answer's text in its first
 * block (gateway-api.md, "POST /v1/messages"), also from a model that cannot be kept from thinking.
 */
export function reportsThinking({ body }: ModelRequest): boolean {
  const { thinking } = body
  return isObject(thinking) && thinking["type"] !== "disabled" && thinking["display"] !== "omitted"
}

/**
 * Whether the client carries thinking that it is not to read: it asked for a model that thinks, and for nothing to be shown.
 * The vendor's models give it a block for that, with nothing in it but a signature. Another backend's thinking goes in such
 * a block before a call, because there are some that refuse the call's result without it. An answer without calls begins
 * with its text, as it does for everybody to whom thinking is not shown.
 */
export function carriesThinking({ body }: ModelRequest): boolean {
  const { thinking } = body
  return isObject(thinking) && thinking["type"] !== "disabled" && thinking["display"] === "omitted"
}

// A failure in a messages stream: the format's own `error` event, which its SDKs raise (decisions §6, §12.8).

export const streamFailure = (failure: Failure, { requestId }: FailureContext): string =>
  encodeSse(
    "error",
    JSON.stringify({
      type: "error",
      error: { type: messagesErrorType(failure), message: messageWithHint(failure) },
      request_id: requestId,
    }),
  )
