/**
 * A whole chat completion: read, with only its model changed for a chat client; put together from a stream; in the neutral
 * language, its first choice, the only one that is asked for there; and written for a chat client.
 */
import { Failure } from "../../failure/failure.ts"
import type { AssistantPart, ModelReply, Prompt, ToolCallPart } from "../../language/prompt.ts"
import { filled, isObject, type Json, type JsonObject, present, readText } from "../../language/json.ts"
import type { AnswerView, ClientView, Gatherer, Reply } from "../format.ts"
import { failureIn, laterUsage, usageIn, usageSearches, usageTokens } from "../shared/chunks.ts"
import { CallReader, OpenCalls } from "../shared/tools.ts"
import { plausibleTokens } from "../tokens.ts"
import { chatFinish, chatUsage, isContent, readFinish, readSaid, readUsage } from "./events-in.ts"
import { answerHead, writeCallHead } from "./events-out.ts"
import { usesFunctions } from "./prompt-in.ts"
import type { SseEvent } from "../sse.ts"

export const readReply = (body: JsonObject, view: ClientView): Reply | Failure => {
  const failure = failureIn(body)
  if (failure !== undefined) return failure
  // Every client reads choices[0]: a completion without one is not an answer.
  if (!filled(body.choices) || !Array.isArray(body.choices)) return new Failure("dependency.upstream_unavailable")
  const hasContent = body.choices.some(
    (choice) => isObject(choice) && isObject(choice.message) && isContent(choice.message),
  )
  return {
    body: { ...body, model: view.model },
    tokens: plausibleTokens(usageTokens(usageIn(body)), hasContent),
    searches: usageSearches(usageIn(body)),
  }
}

// A chat backend's whole answer in the neutral language: its first choice, the only one that is asked for here.

export function decodeReply({ body }: Pick<Reply, "body">, prompt: Prompt): ModelReply | Failure {
  const choice = Array.isArray(body.choices) ? body.choices[0] : undefined
  if (!isObject(choice) || !isObject(choice.message)) return new Failure("dependency.upstream_unavailable")
  const id = typeof body.id === "string" && body.id !== "" ? body.id : undefined
  const said = readSaid(choice.message)
  const parts: AssistantPart[] = []
  if (said.thinking !== "") parts.push({ type: "thinking", text: said.thinking, seal: undefined })
  if (said.text !== "") parts.push({ type: "text", text: said.text })
  if (said.refusal !== "") parts.push({ type: "refusal", text: said.refusal })
  const calls = readCalls(choice.message, prompt, id ?? "")
  parts.push(...calls)
  const { reason, stopSequence } = readFinish(choice, calls.length > 0, prompt.stopSequences)
  return { id, parts, finish: reason, stopSequence, usage: readUsage(usageIn(body)) }
}

/** Calls that came whole are read as a stream of one piece each, so that both ways to them agree. Each has an id of its own, whatever came. */
function readCalls(message: JsonObject, prompt: Prompt, answerId: string): ToolCallPart[] {
  const reader = new CallReader(prompt)
  const pieces = Array.isArray(message.tool_calls) ? message.tool_calls.filter(isObject) : []
  const ids = new Set<Json | undefined>()
  const calls: ToolCallPart[] = []
  const events = [
    ...pieces.flatMap(({ id, ...piece }) => {
      const own = ids.has(id) ? "" : id
      ids.add(id)
      return reader.take({ ...piece, id: own, index: undefined }, answerId)
    }),
    ...reader.close(),
  ]
  for (const event of events) {
    if (event.type === "tool-call-start")
      calls.push({ type: "tool-call", id: event.id, name: event.name, arguments: "", custom: event.custom })
    const call = event.type === "tool-call-delta" ? calls[event.index] : undefined
    if (call !== undefined && event.type === "tool-call-delta")
      calls[event.index] = { ...call, arguments: call.arguments + event.arguments }
  }
  return calls
}

// A whole answer for a chat client.

export function encodeReply(reply: ModelReply, view: AnswerView): JsonObject {
  const calls = reply.parts.filter((part) => part.type === "tool-call")
  const finish = chatFinish(reply.finish, calls.length > 0)
  const older = usesFunctions(view.request.body)
  return {
    ...answerHead("chat.completion", reply.id, view),
    choices: [
      {
        index: 0,
        message: writeMessage(reply.parts, calls, older),
        logprobs: null,
        finish_reason: older && finish === "tool_calls" ? "function_call" : finish,
      },
    ],
    ...(reply.usage === undefined ? {} : { usage: chatUsage(reply.usage) }),
  }
}

function writeMessage(parts: readonly AssistantPart[], calls: readonly ToolCallPart[], older: boolean): JsonObject {
  const text = textOf(parts, "text")
  const refusal = textOf(parts, "refusal")
  const thinking = textOf(parts, "thinking")
  const message: JsonObject = {
    role: "assistant",
    content: text === "" && (calls.length > 0 || refusal !== "") ? null : text,
    refusal: refusal === "" ? null : refusal,
  }
  if (thinking !== "") message.reasoning_content = thinking
  const [first] = calls
  if (first === undefined) return message
  if (older) message.function_call = { name: first.name, arguments: first.arguments }
  else message.tool_calls = calls.map((call) => writeCallHead(call.id, call.name, call.arguments, call.custom))
  return message
}

/** Pieces of text meet without a gap, as they do in a stream: another format may cut one sentence into several parts. */
const textOf = (parts: readonly AssistantPart[], type: "text" | "refusal" | "thinking"): string =>
  parts.map((part) => (part.type === type ? part.text : "")).join("")

// A chat stream put together into the completion that a call without a stream would have got. Fields that nobody here knows
// are kept: a text goes on where it came in pieces, a list grows, and of anything else the last value is the whole.

export const gatherer = (): Gatherer => new ChatGatherer()

interface Call {
  id: string
  name: string
  /** All but the name and the arguments, as the finished call has it. */
  readonly fields: JsonObject
  text: string
  custom: boolean
}

interface Choice {
  readonly fields: JsonObject
  readonly message: JsonObject
  readonly calls: OpenCalls<Call>
  functionCall: { name: string; arguments: string } | undefined
}

class ChatGatherer implements Gatherer {
  readonly #fields: JsonObject = {}
  readonly #choices = new Map<number, Choice>()

  take(_: SseEvent, chunk: JsonObject | undefined): void {
    if (chunk === undefined) return
    const { choices, obfuscation: _padding, ...others } = chunk
    const fields = { ...others, usage: laterUsage(this.#fields["usage"], others["usage"]) }
    for (const [name, value] of Object.entries(fields)) if (present(value)) set(this.#fields, name, value)
    for (const choice of Array.isArray(choices) ? choices : []) if (isObject(choice)) this.#choice(choice)
  }

  reply(): JsonObject {
    const { id, object: _, created, model, ...others } = this.#fields
    const choices = [...this.#choices].sort(([one], [other]) => one - other)
    return {
      id,
      object: "chat.completion",
      created,
      model,
      choices: choices.map(([index, choice]) => ({ index, message: messageOf(choice), ...ended(choice.fields) })),
      ...others,
    }
  }

  #choice({ index, delta, logprobs, ...fields }: JsonObject): void {
    const choice = this.#choiceAt(typeof index === "number" ? index : 0)
    for (const [name, value] of Object.entries(fields)) if (present(value)) set(choice.fields, name, value)
    if (isObject(logprobs)) set(choice.fields, "logprobs", grown(choice.fields["logprobs"], logprobs))
    if (isObject(delta)) takeDelta(choice, delta)
  }

  #choiceAt(index: number): Choice {
    const known = this.#choices.get(index)
    if (known !== undefined) return known
    const calls = new OpenCalls(() => ({ id: "", name: "", fields: {}, text: "", custom: false }))
    const choice = { fields: {}, message: {}, calls, functionCall: undefined }
    this.#choices.set(index, choice)
    return choice
  }
}

/** What a choice says of its end, the reason at least. */
const ended = ({ logprobs, finish_reason, ...others }: JsonObject): JsonObject => ({
  logprobs: logprobs ?? null,
  finish_reason: finish_reason ?? null,
  ...others,
})

function takeDelta(choice: Choice, { tool_calls: calls, function_call: older, content, ...said }: JsonObject): void {
  const { message } = choice
  if (present(content)) set(message, "content", grownContent(message["content"], content))
  for (const [name, value] of Object.entries(said))
    if (present(value)) set(message, name, CONSTANT.has(name) ? value : grown(message[name], value))
  if (Array.isArray(calls)) for (const piece of calls) if (isObject(piece)) takeCall(choice.calls, piece)
  if (!isObject(older)) return
  choice.functionCall ??= { name: "", arguments: "" }
  choice.functionCall.name ||= readText(older["name"])
  choice.functionCall.arguments += readText(older["arguments"])
}

/** Texts that come whole, however often. */
const CONSTANT: ReadonlySet<string> = new Set(["role", "name", "id", "type", "format", "index", "signature"])

function takeCall(calls: OpenCalls<Call>, { index, ...piece }: JsonObject): void {
  const { id, function: called, custom, ...fields } = piece
  const said: JsonObject = isObject(custom) ? custom : isObject(called) ? called : {}
  const given = said["arguments"] ?? said["input"]
  const text = isObject(given) ? JSON.stringify(given) : readText(given)
  const call = calls.find({ index, id: readText(id), name: readText(said["name"]), arguments: text })
  call.id ||= readText(id)
  call.name ||= readText(said["name"])
  call.custom ||= isObject(custom)
  call.text += text
  for (const [name, value] of Object.entries(fields)) if (present(value)) set(call.fields, name, value)
}

/** A message that says nothing in words has no content where it says something else. */
function messageOf({ message, calls, functionCall }: Choice): JsonObject {
  const { role, content, refusal, ...others } = message
  const called = calls.all.map(({ id, name, fields: { type, ...more }, text: given, custom }) => ({
    id,
    type: type ?? (custom ? "custom" : "function"),
    ...(custom ? { custom: { name, input: given } } : { function: { name, arguments: given } }),
    ...more,
  }))
  const silent = !present(content) || content === ""
  const otherwise = called.length > 0 || functionCall !== undefined || readText(refusal) !== ""
  return {
    role: role ?? "assistant",
    content: silent ? (otherwise ? null : "") : content,
    refusal: readText(refusal) === "" ? null : refusal,
    ...others,
    ...(called.length > 0 && { tool_calls: called }),
    ...(functionCall && { function_call: functionCall }),
  }
}

/** What has come of a field, and what comes now. */
function grown(before: Json | undefined, now: Json): Json {
  if (typeof before === "string" && typeof now === "string") return before + now
  if (Array.isArray(before) && Array.isArray(now)) return now.reduce(grownList, before)
  if (!isObject(before) || !isObject(now)) return now
  for (const [name, value] of Object.entries(now))
    if (present(value)) set(before, name, CONSTANT.has(name) ? value : grown(before[name], value))
  return before
}

/** Where the parts of a list stand that name their place: a list may grow by many. */
const places = new WeakMap<Json[], Map<Json | undefined, number>>()

/** Parts that name their place go on in it. */
function grownList(list: Json[], item: Json): Json[] {
  const known = places.get(list) ?? new Map(list.map((one, at) => [placeOf(one), at]))
  places.set(list, known)
  const place = placeOf(item)
  const at = place === undefined ? undefined : known.get(place)
  if (at === undefined) known.set(place, list.push(item) - 1)
  else list[at] = grown(list[at], item)
  return list
}

const placeOf = (item: Json): number | undefined =>
  isObject(item) && typeof item["index"] === "number" ? item["index"] : undefined

/** Some backends send content as parts, and texts between them. */
function grownContent(before: Json | undefined, now: Json): Json {
  if (!present(before)) return Array.isArray(now) ? joined(now) : now
  if (typeof before === "string" && typeof now === "string") return before + now
  return addParts(joined(asParts(before)), asParts(now))
}

const asParts = (content: Json): Json[] =>
  Array.isArray(content) ? content : content === "" ? [] : [{ type: "text", text: content }]

/** Parts that are joined already: they may be many, and are not joined again with each that comes. */
const joinedParts = new WeakSet<Json[]>()
const joined = (parts: Json[]): Json[] => (joinedParts.has(parts) ? parts : addParts([], parts))

/** A part that goes on with the one before it becomes one with it: each holds its text in a field of its type's name. */
function addParts(parts: Json[], more: readonly Json[]): Json[] {
  joinedParts.add(parts)
  for (const part of more) {
    if (!isObject(part) || !goesOn(parts.at(-1), part)) parts.push(part)
  }
  return parts
}

/** Whether the part before took this one in. */
function goesOn(last: Json | undefined, part: JsonObject): boolean {
  const { type } = part
  if (!isObject(last) || typeof type !== "string" || last["type"] !== type) return false
  const [before, now] = [last[type], part[type]]
  let both: Json
  if (typeof before === "string" && typeof now === "string") both = before + now
  else if (Array.isArray(before) && Array.isArray(now)) both = addParts(joined(before), now)
  else return false
  for (const [name, value] of Object.entries(part)) set(last, name, name === type ? both : (value ?? null))
  return true
}

/** Defined and not assigned, so that a `__proto__` key stays a harmless key. */
function set(object: JsonObject, name: string, value: Json): void {
  if (name !== "__proto__") object[name] = value
  else Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true })
}
