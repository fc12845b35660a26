/**
 * A chat stream put together into the completion that a call without a stream would have got. Fields that nobody here knows
 * are kept: a text goes on where it came in pieces, a list grows, and of anything else the last value is the whole.
 */
import { readText } from "../shared/text.ts"
import { isObject, type Json, type JsonObject, present } from "../../language/json.ts"
import type { Gatherer } from "../format.ts"
import type { SseEvent } from "../sse.ts"
import { OpenCalls } from "../shared/tool-calls.ts"

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
    const { choices, obfuscation: _padding, ...fields } = chunk
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
  const call = calls.find(index, readText(id), readText(said["name"]))
  call.id ||= readText(id)
  call.name ||= readText(said["name"])
  call.custom ||= isObject(custom)
  const given = said["arguments"] ?? said["input"]
  call.text += isObject(given) ? JSON.stringify(given) : readText(given)
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

/** Parts that name their place go on in it. */
function grownList(list: Json[], item: Json): Json[] {
  const place = isObject(item) && typeof item["index"] === "number" ? item["index"] : undefined
  const known = place === undefined ? -1 : list.findLastIndex((one) => isObject(one) && one["index"] === place)
  if (known < 0) list.push(item)
  else list[known] = grown(list[known], item)
  return list
}

/** Some backends send content as parts, and texts between them. */
function grownContent(before: Json | undefined, now: Json): Json {
  if (!present(before)) return Array.isArray(now) ? asParts(now).reduce(grownParts, []) : now
  if (typeof before === "string" && typeof now === "string") return before + now
  return [...asParts(before), ...asParts(now)].reduce(grownParts, [])
}

const asParts = (content: Json): Json[] => {
  if (Array.isArray(content)) return content
  return content === "" ? [] : [{ type: "text", text: content }]
}

/** A part that goes on with the one before it becomes one with it: each holds its text in a field of its type's name. */
function grownParts(parts: Json[], part: Json): Json[] {
  const last = parts.at(-1)
  const type = isObject(part) ? part["type"] : undefined
  if (!isObject(part) || !isObject(last) || typeof type !== "string" || last["type"] !== type) return [...parts, part]
  const [before, now] = [last[type], part[type]]
  const both =
    typeof before === "string" && typeof now === "string"
      ? before + now
      : Array.isArray(before) && Array.isArray(now)
        ? [...before, ...now].reduce(grownParts, [])
        : undefined
  return both === undefined ? [...parts, part] : [...parts.slice(0, -1), { ...last, ...part, [type]: both }]
}

/** Defined and not assigned, so that a `__proto__` key stays a harmless key. */
function set(object: JsonObject, name: string, value: Json): void {
  if (name !== "__proto__") object[name] = value
  else Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true })
}
