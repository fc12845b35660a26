/**
 * Writes one stream for a client of the responses format. Every event names the item that it belongs to, so calls whose
 * pieces interleave need not wait for each other: each stays open until its part ends or the answer does. The terminal
 * event repeats the whole answer, which is why the items are kept.
 */
import { unreachable } from "../../../actors/unreachable.ts"
import type { Failure } from "../../failure/failure.ts"
import type { FinishReason, ModelEvent, Usage } from "../../language/prompt.ts"
import type { Json, JsonObject } from "../../language/json.ts"
import type { AnswerView, EventEncoder, FailureContext, SentStep, StreamPosition } from "../format.ts"
import { encodeSse, openErrorType, streamCode, messageWithHint } from "../sse.ts"
import { Steps } from "../backend-stream.ts"
import { CallWriter, MessageWriter, type Place, ReasoningWriter } from "./item-writers.ts"
import { begun, callReader, endOf, type Identity, identityOf, responseObject } from "./items-out.ts"

export const eventEncoder = (view: AnswerView): EventEncoder => new ResponseEncoder(view)

class ResponseEncoder implements EventEncoder {
  readonly #view: AnswerView
  readonly #steps = new Steps()
  readonly #readCall: ReturnType<typeof callReader>
  readonly #items: (MessageWriter | ReasoningWriter | CallWriter)[] = []
  /** By the answer's count of tool calls. */
  readonly #calls = new Map<number, CallWriter>()
  /** What text or thinking goes on in; calls do not end by what follows them. */
  #saying: MessageWriter | ReasoningWriter | undefined
  #identity: Identity
  #sequence = 0
  #finish: FinishReason | undefined
  #usage: Usage | undefined
  /** Events written since the last step. */
  #out = ""

  constructor(view: AnswerView) {
    this.#view = view
    this.#identity = identityOf(view, undefined)
    this.#readCall = callReader(view)
  }

  encode(event: ModelEvent): SentStep[] {
    if (this.#steps.ended) return []
    if (event.type === "start" || event.type === "usage") this.#usage = event.usage ?? this.#usage
    if (event.type === "usage") return []
    this.#begin(event.type === "start" ? event.id : undefined)
    if (event.type === "end") return this.#end()
    return this.#step(this.#write(event))
  }

  position(): StreamPosition {
    return { sequence: this.#sequence, ...this.#identity }
  }

  /** Whether the event is usable output. */
  #write(event: Exclude<ModelEvent, { type: "usage" | "end" }>): boolean {
    switch (event.type) {
      case "start":
        return false
      case "text-delta":
      case "refusal-delta":
        if (event.text === "") return false
        this.#message().say(event.type === "text-delta" ? "output_text" : "refusal", event.text)
        return true
      case "thinking-delta":
        if (event.text === "") return false
        this.#reasoning().say(event.text)
        return true
      case "thinking-seal":
        this.#reasoning().seal(event.seal)
        return false
      case "tool-call-start":
        this.#stopSaying()
        this.#calls.set(event.index, this.#add(new CallWriter(this.#place(), this.#readCall(event))))
        return true
      case "tool-call-delta":
        return this.#calls.get(event.index)?.say(event.arguments) ?? false
      case "part-end":
        this.#items.at(-1)?.endPart()
        return false
      case "finish":
        this.#finish = event.reason
        this.#close()
        return false
      default:
        return unreachable(event)
    }
  }

  #begin(backendId: string | undefined): void {
    if (this.#sequence > 0) return
    this.#identity = identityOf(this.#view, backendId)
    const response = responseObject(this.#view, this.#identity, begun)
    this.#emit("response.created", { response })
    this.#emit("response.in_progress", { response })
  }

  #end(): SentStep[] {
    this.#close()
    const before = this.#out === "" ? [] : this.#step(false)
    const status = endOf(this.#finish)
    const output = this.#items.map((item) => item.whole())
    const outcome = { status, finish: this.#finish, usage: this.#usage, output }
    this.#emit(`response.${status}`, { response: responseObject(this.#view, this.#identity, outcome) })
    return [...before, this.#steps.terminal(this.#taken())]
  }

  /** What is open when the answer ends is what its limit cut off; of the calls before the last part, those that are not whole. */
  #close(): void {
    for (const item of this.#items.slice(0, -1)) item.endPart()
    for (const item of this.#items) item.close(endOf(this.#finish))
    this.#saying = undefined
  }

  #message(): MessageWriter {
    if (this.#saying instanceof MessageWriter) return this.#saying
    this.#stopSaying()
    const message = this.#add(new MessageWriter(this.#place()))
    this.#saying = message
    return message
  }

  #reasoning(): ReasoningWriter {
    if (this.#saying instanceof ReasoningWriter && this.#saying.open) return this.#saying
    this.#stopSaying()
    const reasoning = this.#add(new ReasoningWriter(this.#place()))
    this.#saying = reasoning
    return reasoning
  }

  #stopSaying(): void {
    this.#saying?.close("completed")
    this.#saying = undefined
  }

  #add<T extends MessageWriter | ReasoningWriter | CallWriter>(item: T): T {
    this.#items.push(item)
    return item
  }

  #place(): Place {
    const emit = (type: string, fields: JsonObject) => this.#emit(type, fields)
    return { emit, identity: this.#identity, outputIndex: this.#items.length }
  }

  #emit(type: string, fields: JsonObject): void {
    this.#out += encodeSse(type, JSON.stringify({ type, sequence_number: this.#sequence++, ...fields }))
  }

  #step(hasContent: boolean): SentStep[] {
    return [this.#steps.step(hasContent, this.#taken())]
  }

  #taken(): string {
    const bytes = this.#out
    this.#out = ""
    return bytes
  }
}

// A failure in an answer of the responses format, streamed or not. In a stream `response.created` must have come before
// `response.failed`: clients take a bare error for nothing (decisions §6). A stream that has begun keeps its identity
// and its numbers.

export const streamFailure = (failure: Failure, context: FailureContext & { readonly started: boolean }): string => {
  const first = context.started ? (context.position?.sequence ?? 1) : 0
  const created = context.started ? "" : event("response.created", first, response("in_progress", null, context))
  return created + event("response.failed", context.started ? first : first + 1, failedReply(failure, context))
}

/** The body under HTTP 200 when keepalives had been sent before the failure was known. */
export const failedReply = (failure: Failure, context: FailureContext): JsonObject => {
  const error = {
    code: streamCode(failure),
    message: messageWithHint(failure),
    type: openErrorType(failure),
    param: null,
  }
  return response("failed", error, context)
}

const event = (type: string, sequence: number, body: JsonObject): string =>
  encodeSse(type, JSON.stringify({ type, sequence_number: sequence, response: body }))

/** All that strict clients require of a response; what the request asked for is not known here and told as its default. */
const response = (
  status: string,
  error: Json,
  { requestId, model, position, nowMs = 0 }: FailureContext,
): JsonObject => ({
  id: position?.id ?? `resp_${requestId.replace(/^req_/, "")}`,
  object: "response",
  created_at: position?.createdAt ?? Math.floor(nowMs / 1000),
  status,
  error,
  incomplete_details: null,
  instructions: null,
  max_output_tokens: null,
  model,
  output: [],
  parallel_tool_calls: true,
  previous_response_id: null,
  reasoning: { effort: null, summary: null },
  store: false,
  temperature: null,
  text: { format: { type: "text" } },
  tool_choice: "auto",
  tools: [],
  top_p: null,
  truncation: "disabled",
  usage: null,
  user: null,
  metadata: {},
})
