/**
 * Which conversation a call belongs to: what its client calls it, or else how its prompt opens. Backends keep the beginning of
 * a prompt for each credential, so the calls of one conversation go to one member of a pool (docs/operating/pools.md).
 *
 * Read from the client's own body, whatever format a backend speaks. The opening is what was said before the first answer, for
 * that is the same in every turn. Its texts alone count: between two turns clients write a text as a string or as parts, and
 * move their cache marks. Work is bounded, whatever was sent: the ends of a few texts.
 *
 * And what a translated conversation needs before any backend takes it (`withResults`), or its answer before a client understands it
 * (`withRefusal`).
 */
import { isObject, type Json, type JsonObject } from "../language/json.ts"
import type { ModelEvent, ModelReply, ToolResultPart, Turn } from "../language/prompt.ts"
import type { Conversation } from "../language/request.ts"
import type { EventEncoder } from "./format.ts"

/** Where clients name a session: OpenRouter's and OpenCode's header, Codex's of all ages, Claude Code's. */
const HEADERS = [
  "x-session-id",
  "session-id",
  "session_id",
  "conversation_id",
  "x-session-affinity",
  "x-claude-code-session-id",
]

export function nameInHeaders(headers: Headers): string | undefined {
  for (const header of HEADERS) {
    const name = named(headers.get(header))
    if (name !== undefined) return name
  }
  return undefined
}

/** `inHeaders` is what the headers name. What the body says of caches goes before it, an end user's id after it. */
export function conversationOf(body: JsonObject, inHeaders: string | undefined): Conversation {
  const { prompt_cache_key, session_id, metadata, client_metadata } = body
  const name =
    named(prompt_cache_key) ??
    named(session_id) ??
    inHeaders ??
    (isObject(metadata) ? (named(metadata["session_id"]) ?? sessionIn(metadata["user_id"])) : undefined) ??
    (isObject(client_metadata) ? named(client_metadata["session_id"]) : undefined)
  return name === undefined ? { opening: openingOf(body) } : { name }
}

/** UTF-16 units. Names are ids; a longer one is told apart by its beginning. */
const LONGEST_NAME = 256

const named = (value: Json | undefined): string | undefined =>
  typeof value === "string" && value !== "" ? value.slice(0, LONGEST_NAME) : undefined

const LONGEST_USER_ID = 1_024

/**
 * Claude Code's `metadata.user_id` tells device, account and session: as JSON since 2.1.78, as
 * `user_…_account_…_session_…` before. Any other is of an end user, who has many conversations.
 */
function sessionIn(userId: Json | undefined): string | undefined {
  if (typeof userId !== "string" || userId.length > LONGEST_USER_ID) return undefined
  if (userId.startsWith("{")) return named(sessionField(userId))
  const at = userId.startsWith("user_") ? userId.lastIndexOf("_session_") : -1
  return at < 0 ? undefined : named(userId.slice(at + "_session_".length))
}

function sessionField(text: string): Json | undefined {
  try {
    const parsed = JSON.parse(text) as Json
    return isObject(parsed) ? parsed["session_id"] : undefined
  } catch {
    return undefined
  }
}

const MAX_ITEMS = 32
const MAX_TEXTS = 24
const MAX_TOOLS = 32
/** Parts of one message, at either end: agents put the same reminders before what the user says, or after it. */
const PARTS_AT_AN_END = 8
/** UTF-16 units of a text, at either end. */
const EDGE = 256

/** A line of the client's own accounts, and no part of the prompt: it may differ from call to call. */
const BILLING = "x-anthropic-billing-header"

/** The beginning of the instructions, the tools' names, and what the user said before the first answer; as digits. */
function openingOf(body: JsonObject): string {
  const { messages, input, prompt, system, instructions, tools } = body
  const content = messages ?? input ?? prompt
  const items: readonly Json[] = Array.isArray(content) ? content : [{ role: "user", content: content ?? "" }]
  let leading = beginning(system ?? instructions)
  const said: string[] = []
  for (let place = 0; place < Math.min(items.length, MAX_ITEMS) && said.length < MAX_TEXTS; place++) {
    const item = items[place]
    if (!isObject(item)) {
      said.push(edges(bare(item)))
      continue
    }
    const { role, content } = item
    if (isAnswer(item)) break
    if (role === "user") addTexts(said, content)
    else if (role === "system" || role === "developer") leading ||= beginning(content)
  }
  return Bun.hash.xxHash3(`${leading}\n${toolNames(tools)}\n${said.join("\n")}`).toString(36)
}

/** A text that stands for itself, or token ids. */
const bare = (item: Json | undefined): string =>
  typeof item === "string" ? item : JSON.stringify(Array.isArray(item) ? item.slice(0, MAX_ITEMS) : item)

/** The items of the responses format have no role where a model thought or called. */
const isAnswer = ({ role, type }: JsonObject): boolean =>
  role === "assistant" || (typeof type === "string" && (type === "reasoning" || type.endsWith("_call")))

/** What instructions begin with. Their end may be the time of day. */
function beginning(texts: Json | undefined): string {
  if (typeof texts === "string") return texts.slice(0, EDGE)
  if (!Array.isArray(texts)) return ""
  for (const part of texts.slice(0, PARTS_AT_AN_END)) {
    const text = isObject(part) ? part["text"] : undefined
    if (typeof text === "string" && text !== "" && !text.startsWith(BILLING)) return text.slice(0, EDGE)
  }
  return ""
}

function addTexts(said: string[], content: Json | undefined): void {
  if (!Array.isArray(content)) {
    if (typeof content === "string") said.push(edges(content))
    return
  }
  const skipped = content.length - 2 * PARTS_AT_AN_END
  for (let place = 0; place < content.length && said.length < MAX_TEXTS; place++) {
    if (skipped > 0 && place === PARTS_AT_AN_END) place += skipped
    const part = content[place]
    if (isObject(part)) said.push(edges(dataOf(part)))
  }
}

/** A text, or the data or the address of an image or a file, in any of the formats. */
function dataOf(part: JsonObject): string {
  const { text, source, image_url, file } = part
  if (typeof text === "string") return text
  const data = isObject(source) ? (source["data"] ?? source["url"]) : isObject(image_url) ? image_url["url"] : image_url
  const found = data ?? (isObject(file) ? file["file_data"] : part["file_data"])
  return typeof found === "string" ? found : ""
}

/** Both ends, for long texts of one agent often begin alike, and their length. */
const edges = (text: string): string =>
  text.length <= 2 * EDGE ? text : `${text.length} ${text.slice(0, EDGE)}${text.slice(-EDGE)}`

/** Tools whose definition is deferred come and go in mid-conversation, and are no part of what is cached. */
function toolNames(tools: Json | undefined): string {
  let names = ""
  if (!Array.isArray(tools)) return names
  for (const tool of tools.slice(0, MAX_TOOLS)) {
    if (!isObject(tool) || tool["defer_loading"] === true) continue
    const { name, function: called } = tool
    const toolName = name ?? (isObject(called) ? called["name"] : undefined)
    if (typeof toolName === "string") names += ` ${toolName.slice(0, LONGEST_NAME)}`
  }
  return names
}

/** Whose conversation it is. Ids hold no line end. */
export interface Owner {
  readonly accountId: string
  readonly keyId: string
  readonly model: string
}

/** Of an installation there is one. */
const secrets = new WeakMap<Uint8Array, string>()

function digitsOf(secret: Uint8Array): string {
  const known = secrets.get(secret)
  if (known !== undefined) return known
  const digits = Buffer.from(secret).toString("hex")
  secrets.set(secret, digits)
  return digits
}

const digest = new Uint8Array(32)
const view = new DataView(digest.buffer)

/**
 * The conversation's place among members, from 0 to 2³² − 1: the same in every process of an installation, and nobody else's.
 * A client can neither find another account's conversation nor choose a member.
 */
export function conversationKey(
  secret: Uint8Array,
  { accountId, keyId, model }: Owner,
  conversation: Conversation,
): number {
  const identity = "name" in conversation ? `name\n${conversation.name}` : `${keyId}\n${conversation.opening}\n${model}`
  Bun.SHA256.hash(`conversation\n${digitsOf(secret)}\n${accountId}\n${identity}`, digest)
  return view.getUint32(0)
}

// Calls and their results, as backends take them: one result of each call, in the turn after it. A client of another format may have sent an
// output again when it resumed, or stopped a call, and its whole conversation would be refused for ever.

/** What is said of a call that no result came of. */
const NO_RESULT: ToolResultPart["parts"] = [{ type: "text", text: "No result." }]

/** `answer` counts the assistant's turns, neighbours as one. */
interface AskedCall {
  readonly id: string
  readonly answer: number
  readonly results: ToolResultPart[]
}

/** The turns themselves where all is so already. A result of no call stays where it is. */
export function withResults(turns: readonly Turn[]): readonly Turn[] {
  const answers: AskedCall[][] = []
  /** The calls of an id in the latest answer that has it, and how many of them have a result. */
  const latest = new Map<string, { readonly calls: AskedCall[]; answered: number }>()
  const asked = new Map<ToolResultPart, AskedCall>()
  const broken = new Set<number>()
  for (const [place, { role, parts }] of turns.entries()) {
    if (role === "assistant" && turns[place - 1]?.role !== "assistant") answers.push([])
    const answer = answers.length - 1
    for (const part of parts) {
      if (part.type === "tool-call") {
        const call: AskedCall = { id: part.id, answer, results: [] }
        answers[answer]?.push(call)
        const ofId = latest.get(part.id)
        if (ofId?.calls[0]?.answer === answer) ofId.calls.push(call)
        else latest.set(part.id, { calls: [call], answered: 0 })
      } else if (part.type === "tool-result") {
        const ofId = latest.get(part.callId)
        const call = ofId?.calls[ofId.answered++] ?? ofId?.calls.at(-1)
        if (call === undefined) continue
        call.results.push(part)
        asked.set(part, call)
        if (call.answer !== answer) broken.add(call.answer)
      }
    }
  }
  for (const call of answers.flat()) if (call.results.length !== 1) broken.add(call.answer)
  if (broken.size === 0) return turns
  let answer = -1
  return turns.flatMap((turn, place): Turn[] => {
    if (turn.role === "assistant") {
      if (turns[place - 1]?.role !== "assistant") answer++
      if (turns[place + 1]?.role === "assistant" || !broken.has(answer)) return [turn]
      return [turn, { role: "user", parts: (answers[answer] ?? []).map(resultOf) }]
    }
    if (turn.role !== "user") return [turn]
    const parts = turn.parts.filter((part) => part.type !== "tool-result" || !broken.has(asked.get(part)?.answer ?? -1))
    return parts.length === 0 ? [] : [{ role: "user", parts }]
  })
}

/** Several results are one, of all that they say. */
function resultOf({ id, results: [first, ...others] }: AskedCall): ToolResultPart {
  if (first === undefined) return { type: "tool-result", callId: id, parts: NO_RESULT, isError: true }
  const more = others.filter(({ parts }) => !Bun.deepEquals(parts, first.parts)).flatMap(({ parts }) => parts)
  return { ...first, parts: [...first.parts, ...more], isError: (others.at(-1) ?? first).isError }
}

// An answer that a model or a filter refused, and that says nothing: clients of most formats show it as an empty one.

const REFUSAL = "The model refused to answer, or a content filter withheld the answer."

const saysSomething = ({ type, text }: { readonly type: string; readonly text?: string }): boolean =>
  type.startsWith("tool-call") || (!type.startsWith("thinking") && text !== undefined && text !== "")

/** The answer with words of its refusal where it has none. */
export function withRefusal(reply: ModelReply): ModelReply {
  if (reply.finish !== "content-filter" || reply.parts.some(saysSomething)) return reply
  return { ...reply, parts: [...reply.parts, { type: "refusal", text: REFUSAL }] }
}

/** The same of a stream. */
export function sayingRefusal(encoder: EventEncoder): EventEncoder {
  let hasSaid = false
  return {
    encode(event: ModelEvent) {
      hasSaid ||= saysSomething(event)
      if (hasSaid || event.type !== "finish" || event.reason !== "content-filter") return encoder.encode(event)
      hasSaid = true
      return [...encoder.encode({ type: "refusal-delta", text: REFUSAL }), ...encoder.encode(event)]
    },
    ...(encoder.position && { position: encoder.position.bind(encoder) }),
  }
}
