/**
 * Neutral events as a chat client's stream: a role chunk, deltas, the finish, the usage where it was asked for, the end
 * mark. Every chunk carries the same id and time. Deltas of several tool calls may come in any order, for each names
 * its call; so nothing is held back here but the usage, which this format tells last. A failure is one chunk whose top-level
 * key is `error`, then the end mark (gateway-api.md, "Events" 4).
 */
import { unreachable } from "../../../actors/unreachable.ts"
import type { FinishReason, ModelEvent, Usage } from "../../language/prompt.ts"
import type { JsonObject } from "../../language/json.ts"
import type { AnswerView, EventEncoder, SentStep } from "../format.ts"
import { encodeSse } from "../sse.ts"
import { Steps } from "../backend-stream.ts"
import { chatFinish, chatUsage } from "./events-in.ts"
import { usesFunctions } from "./prompt-in.ts"

export const eventEncoder = (view: AnswerView): EventEncoder => new ChatEventEncoder(view)

interface Call {
  readonly custom: boolean
  argumentsSent: boolean
}

type ToolCallStart = Extract<ModelEvent, { type: "tool-call-start" }>

class ChatEventEncoder implements EventEncoder {
  readonly #view: AnswerView
  /** The client knows only the older `function_call`, of which an answer has one. */
  readonly #older: boolean
  readonly #steps = new Steps()
  readonly #calls = new Map<number, Call>()
  #head: JsonObject | undefined
  #finished = false
  #usage: Usage | undefined

  constructor(view: AnswerView) {
    this.#view = view
    this.#older = usesFunctions(view.request.body)
  }

  encode(event: ModelEvent): SentStep[] {
    if (this.#steps.ended) return []
    switch (event.type) {
      case "start":
        return this.#begin(event.id)
      case "text-delta":
        return event.text === "" ? [] : this.#content({ content: event.text })
      case "refusal-delta":
        return event.text === "" ? [] : this.#content({ refusal: event.text })
      case "thinking-delta":
        return event.text === "" ? [] : this.#content({ reasoning_content: event.text })
      case "tool-call-start":
        return this.#startCall(event)
      case "tool-call-delta":
        return this.#callDelta(event.index, event.arguments)
      case "finish":
        return this.#finish(event.reason)
      case "usage":
        this.#usage = event.usage
        return []
      case "end":
        return this.#end()
      // This format has no place for a seal, and its parts need no end.
      case "thinking-seal":
      case "part-end":
        return []
      default:
        return unreachable(event)
    }
  }

  #begin(id: string | undefined): SentStep[] {
    if (this.#head !== undefined) return []
    this.#head = answerHead("chat.completion.chunk", id, this.#view)
    return [this.#steps.step(false, this.#chunk({ role: "assistant", content: "" }))]
  }

  #content(delta: JsonObject): SentStep[] {
    return [...this.#begin(undefined), this.#steps.step(true, this.#chunk(delta))]
  }

  #startCall({ index, id, name, custom }: ToolCallStart): SentStep[] {
    this.#calls.set(index, { custom, argumentsSent: false })
    if (!this.#older) return this.#content({ tool_calls: [{ index, ...writeCallHead(id, name, "", custom) }] })
    return index === 0 ? this.#content({ function_call: { name, arguments: "" } }) : []
  }

  #callDelta(index: number, text: string): SentStep[] {
    const call = this.#calls.get(index)
    if (call === undefined || text === "") return []
    call.argumentsSent = true
    if (this.#older) return index === 0 ? this.#content({ function_call: { arguments: text } }) : []
    const said = call.custom ? { custom: { input: text } } : { function: { arguments: text } }
    return this.#content({ tool_calls: [{ index, ...said }] })
  }

  #finish(reason: FinishReason): SentStep[] {
    if (this.#finished) return []
    this.#finished = true
    const begun = this.#begin(undefined)
    // Clients parse the arguments of a function, and no arguments are an empty object.
    const completed = [...this.#calls].flatMap(([index, { custom, argumentsSent }]) =>
      custom || argumentsSent ? [] : this.#callDelta(index, "{}"),
    )
    const finish = chatFinish(reason, this.#calls.size > 0)
    const clientReason = this.#older && finish === "tool_calls" ? "function_call" : finish
    return [...begun, ...completed, this.#steps.step(false, this.#chunk({}, clientReason))]
  }

  #end(): SentStep[] {
    const finish = this.#finish("stop")
    const usage =
      this.#view.includeUsage && this.#usage !== undefined
        ? [this.#steps.step(false, this.#write({ choices: [], usage: chatUsage(this.#usage) }))]
        : []
    return [...finish, ...usage, this.#steps.terminal(encodeSse("", "[DONE]"))]
  }

  #chunk(delta: JsonObject, finishReason: string | null = null): string {
    const choice = { index: 0, delta, logprobs: null, finish_reason: finishReason }
    return this.#write({ choices: [choice], ...(this.#view.includeUsage ? { usage: null } : {}) })
  }

  #write(fields: JsonObject): string {
    return encodeSse("", JSON.stringify({ ...this.#head, ...fields }))
  }
}

// What every chat answer carries, whole or in chunks: one id and one time for all of it, and the catalogue's model.

type AnswerObject = "chat.completion" | "chat.completion.chunk"

export const answerHead = (object: AnswerObject, id: string | undefined, view: AnswerView): JsonObject => ({
  id: id ?? `chatcmpl-${view.requestId}`,
  object,
  created: Math.floor(view.nowMs / 1000),
  model: view.model,
})

export const writeCallHead = (id: string, name: string, text: string, custom: boolean): JsonObject =>
  custom
    ? { id, type: "custom", custom: { name, input: text } }
    : { id, type: "function", function: { name, arguments: text } }
