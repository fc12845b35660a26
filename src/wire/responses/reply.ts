/**
 * A whole response: read, with only its model changed for a responses client; put together from a stream; in the neutral
 * language, without the backend's own searches and the like; and written for a responses client. `incomplete` is an answer that
 * ended at its limit; any other status but `completed` is none, whatever the HTTP status said. Then what an answer says of its end, and of its tokens.
 */
import { Failure } from "../../failure/failure.ts"
import {
  type AssistantPart,
  CallIds,
  type FinishReason,
  type ModelReply,
  type Prompt,
  type Usage,
} from "../../language/prompt.ts"
import { filled, isObject, type Json, type JsonObject, present, readText } from "../../language/json.ts"
import { classifyErrorObject } from "../backend-error.ts"
import type { AnswerView, ClientView, Gatherer, Reply } from "../format.ts"
import { boundedSearches, plausibleTokens, reasoningIn, tokensFromInclusive } from "../tokens.ts"
import { answerParts, backendSide } from "./items-in.ts"
import {
  callItem,
  callReader,
  callText,
  contentPart,
  endOf,
  identityOf,
  itemId,
  messageItem,
  reasoningItem,
  responseObject,
} from "./items-out.ts"
import { eventType, type SseEvent } from "../sse.ts"
import type { Tokens } from "../../../actors/money/price.ts"

export const readReply = (body: JsonObject, view: ClientView): Reply | Failure => {
  if (present(body.error) || body.status === "failed") return classifyErrorObject({ error: body.error })
  if (!Array.isArray(body.output) || !ended(body)) return new Failure("dependency.upstream_unavailable")
  return {
    body: { ...body, model: view.model, ...(isObject(body.usage) && { usage: wholeUsage(body.usage) }) },
    tokens: plausibleTokens(usageTokens(body.usage), body.output.some(isContentItem)),
    searches: boundedSearches(body.output.filter(isSearchItem).length),
  }
}

/** Compatible backends leave the status out. */
const ended = ({ status }: JsonObject): boolean => !present(status) || status === "completed" || status === "incomplete"

// A responses backend's whole answer in the neutral language. Its own searches and the like are no part of it.

const SAID: readonly unknown[] = ["message", "reasoning", "function_call", "custom_tool_call"]

export function decodeReply({ body }: Pick<Reply, "body">, prompt: Prompt): ModelReply | Failure {
  const output = Array.isArray(body["output"]) ? body["output"].filter(isObject) : []
  const parts: AssistantPart[] = []
  const side = backendSide(prompt)
  for (const [index, item] of output.entries()) {
    if (!SAID.includes(item["type"])) continue
    const said = answerParts(item, `output[${index}]`, side)
    // What is wrong with it is the backend's fault, not the client's.
    if (said instanceof Failure) return new Failure("dependency.upstream_unavailable")
    parts.push(...said)
  }
  const id = typeof body["id"] === "string" ? body["id"] : undefined
  return {
    id,
    parts: new CallIds(prompt).ofParts(parts, id ?? ""),
    finish: finishOf(
      body,
      parts.some(({ type }) => type === "tool-call"),
    ),
    stopSequence: undefined,
    usage: replyUsage(body["usage"]),
  }
}

// A whole answer for a client of the responses format.

export function encodeReply({ id, parts, finish, usage }: ModelReply, view: AnswerView): JsonObject {
  const identity = identityOf(view, id)
  const readCall = callReader(view)
  const status = endOf(finish)
  const groups = grouped(parts)
  const output = groups.map((group, index): JsonObject => {
    // As in a stream, only what came last can have been cut off.
    const itemStatus = index === groups.length - 1 ? status : "completed"
    if (group.kind === "message") return messageItem(itemId("msg", identity, index), itemStatus, group.content)
    const { part } = group
    if (part.type === "thinking") return reasoningItem(itemId("rs", identity, index), part.text, part.seal)
    const call = readCall(part)
    return callItem(
      itemId(call.custom ? "ctc" : "fc", identity, index),
      itemStatus,
      call,
      callText(call.custom, part.arguments),
    )
  })
  return responseObject(view, identity, { status, finish, usage, output })
}

type Group =
  | { readonly kind: "message"; readonly content: JsonObject[] }
  | { readonly kind: "other"; readonly part: Exclude<AssistantPart, { type: "text" | "refusal" }> }

/** Neighbouring texts and refusals are the content of one message. */
function grouped(parts: readonly AssistantPart[]): Group[] {
  const groups: Group[] = []
  for (const part of parts) {
    if (part.type !== "text" && part.type !== "refusal") {
      groups.push({ kind: "other", part })
      continue
    }
    if (part.text === "") continue
    const last = groups.at(-1)
    const content = contentPart(part.type === "text" ? "output_text" : "refusal", part.text)
    if (last?.kind === "message") last.content.push(content)
    else groups.push({ kind: "message", content: [content] })
  }
  return groups
}

// A responses stream put together into the response that a call without a stream would have got: the one that its last
// event carries. Some backends leave the output out there, having sent each item before; then it is made of those.

export const gatherer = (): Gatherer => new ResponseGatherer()

class ResponseGatherer implements Gatherer {
  /** By their places, and their ids where several have one. */
  readonly #items = new Map<string, readonly [place: number, item: Json]>()
  #response: JsonObject = {}

  take(event: SseEvent, body: JsonObject | undefined): void {
    if (body === undefined) return
    const { item, output_index: index, response } = body
    const type = eventType(event, body)
    if (type === "response.output_item.done" && isObject(item)) {
      const place = typeof index === "number" ? index : this.#items.size
      this.#items.set(`${place}/${readText(item.id)}`, [place, item])
    }
    if ((type === "response.completed" || type === "response.incomplete") && isObject(response))
      this.#response = response
  }

  reply(): JsonObject {
    const { output } = this.#response
    if ((Array.isArray(output) && output.length > 0) || this.#items.size === 0) return this.#response
    const items = [...this.#items.values()].sort(([one], [other]) => one - other)
    return { ...this.#response, output: items.map(([, item]) => item) }
  }
}

// What a response says of its end: why it ended, and its tokens. `input_tokens` includes what a cache served and stored,
// `output_tokens` reasoning. And what one event of its stream says: a failure, or content.

export const usageTokens = (usage: Json | undefined): Tokens | undefined => {
  if (!isObject(usage)) return undefined
  const details = isObject(usage.input_tokens_details) ? usage.input_tokens_details : {}
  const counts = {
    prompt: usage.input_tokens,
    cacheRead: details.cached_tokens,
    cacheWrite: details.cache_write_tokens,
    output: usage.output_tokens,
  }
  return tokensFromInclusive(counts)
}

/**
 * A backend's `usage` with what Codex cannot read its counts without, where compatible backends leave it out: their total, and the
 * count that details are of. Codex takes an answer that it cannot read for a broken stream, and asks, and pays, again.
 */
export function wholeUsage(usage: JsonObject): JsonObject {
  const { input_tokens: input, output_tokens: output, total_tokens: total } = usage
  if (usageTokens(usage) === undefined) return usage
  const missing: JsonObject = {}
  if (!present(total)) missing.total_tokens = Number(input) + Number(output)
  for (const [name, count] of DETAILS) {
    const details = usage[name]
    if (isObject(details) && !present(details[count])) missing[name] = { ...details, [count]: 0 }
  }
  return Object.keys(missing).length === 0 ? usage : { ...usage, ...missing }
}

const DETAILS = [
  ["input_tokens_details", "cached_tokens"],
  ["output_tokens_details", "reasoning_tokens"],
] as const

/**
 * Whether an output item is a search that the backend bills: one that opened or read a page is none. An item that has begun
 * does not say yet (https://platform.openai.com/docs/guides/tools-web-search).
 */
export const isSearchItem = (item: Json | undefined): boolean => {
  if (!isObject(item) || item["type"] !== "web_search_call") return false
  const { action } = item
  return !isObject(action) || !present(action["type"]) || action["type"] === "search"
}

/** For the client to see; what is charged is judged by the format's own reader. */
export function replyUsage(usage: Json | undefined): Usage | undefined {
  const tokens = usageTokens(usage)
  if (tokens === undefined || !isObject(usage)) return undefined
  const details = usage["output_tokens_details"]
  const reasoning = isObject(details) ? details["reasoning_tokens"] : undefined
  return { tokens, reasoning: reasoningIn(tokens.output, reasoning) }
}

/** An answer that was cut off for a reason that is not known was cut off all the same. */
export function finishOf({ status, incomplete_details: details }: JsonObject, hasCalls: boolean): FinishReason {
  const reason = isObject(details) ? details["reason"] : undefined
  if (reason === "content_filter") return "content-filter"
  if (status === "incomplete" || present(reason)) return "length"
  return hasCalls ? "tool-calls" : "stop"
}

/** A failure that an event of a stream tells. */
export const failureOf = (type: string, body: JsonObject, response: JsonObject | undefined): Failure | undefined => {
  // A named event's own `error` is about one of its tools, not about the stream.
  if (type === "error" || (present(body.error) && !type.startsWith("response."))) return classifyErrorObject(body)
  if (type === "response.failed") return classifyErrorObject({ error: response?.error })
  if (type === "response.cancelled") return new Failure("dependency.upstream_unavailable")
  return undefined
}

/** A delta of any kind brings its text in `delta`; what is not streamed in deltas comes with its item or its `done`. */
export const hasContent = (type: string, body: JsonObject): boolean => {
  if (type.endsWith(".delta")) return filled(body.delta)
  if (type.endsWith(".done"))
    return (
      filled(body.text) ||
      filled(body.refusal) ||
      filled(body.arguments) ||
      filled(body.input) ||
      isContentItem(body.item)
    )
  if (type === "response.output_item.added") return isContentItem(body.item)
  return filled(body.partial_image_b64)
}

/** A call names its tool at once. Messages and reasoning start empty; searches are work, not output. */
const isContentItem = (item: Json | undefined): boolean =>
  isObject(item) && (filled(item.name) || filled(item.result) || hasText(item.content) || hasText(item.summary))

const hasText = (parts: Json | undefined): boolean =>
  Array.isArray(parts) && parts.some((part) => isObject(part) && (filled(part.text) || filled(part.refusal)))

/** Which item of the output an event of a stream is of. */
export class Places {
  readonly #over = new Set<string>()
  /** How many items were over before the one that has a place now. */
  readonly #earlier = new Map<string, number>()

  /** Some backends count each kind of item by itself. What begins where another item is over is another item. */
  begin(event: JsonObject): void {
    const place = placeOf(event)
    if (this.#over.delete(place)) this.#earlier.set(place, (this.#earlier.get(place) ?? 0) + 1)
  }

  end(event: JsonObject): void {
    this.#over.add(placeOf(event))
  }

  key(event: JsonObject): string {
    const place = placeOf(event)
    const earlier = this.#earlier.get(place)
    return earlier === undefined ? place : `${place}~${earlier}`
  }

  /** Of a part of the item. */
  partKey(event: JsonObject, index: Json | undefined): string {
    return `${this.key(event)}/${withSequence(index)}`
  }
}

/** An item's place, or where that is not said (llama.cpp) its id, which of a call may be that of the call. */
const placeOf = ({ output_index: index, item_id, item }: JsonObject): string =>
  withSequence(index, readText(item_id ?? (isObject(item) ? (item["id"] ?? item["call_id"]) : "")))

const withSequence = (index: Json | undefined, other = "0"): string => (typeof index === "number" ? `${index}` : other)
