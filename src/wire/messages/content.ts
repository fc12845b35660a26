/**
 * The messages and the system prompt of a messages request, and the cache marks in them. Blocks may sit inside of blocks (an
 * image in a tool's result), so every check of a block looks at the flat list of all of them that is handed back here.
 *
 * And a search in the format's own blocks: `server_tool_use`, `web_search_tool_result`, and the citations of what was found.
 * `encrypted_content` is opaque to clients, who send it back; here it holds the excerpt, in an envelope that is no secret, because
 * whoever has it could as well have written it.
 */
import { Failure } from "../../failure/failure.ts"
import {
  checkName,
  firstFailure,
  isObject,
  type Json,
  type JsonObject,
  type MessageShape,
  misshapen,
  present,
  readMessage,
  readObjects,
  readParts,
  shown,
} from "../../language/json.ts"
import type { CacheMark, Turn } from "../../language/prompt.ts"

/** `system` inside of `messages` came with version 2026-10-21. */
const MESSAGE: MessageShape = { roles: ["user", "assistant", "system"], texts: ["text"], called: "block" }

/** Checks every message, and hands back the blocks of all of them, nested ones too. */
export function readMessages(value: Json | undefined): JsonObject[] | Failure {
  const messages = readObjects(value, "messages")
  if (messages instanceof Failure) return messages
  if (messages.length === 0) return misshapen("'messages' is missing or empty; it must be an array of messages.")
  const all: JsonObject[] = []
  const failure = firstFailure(messages, (message, index) => {
    const blocks = readMessage(message, "messages", index, MESSAGE)
    if (blocks instanceof Failure) return blocks
    for (const block of blocks) addWithNested(all, block)
    return firstFailure(blocks, (block, place) => checkToolBlock(block, `messages[${index}].content[${place}]`))
  })
  return failure ?? all
}

/** Calls and results find each other by their ids. A result of another shape would be lost on the way to another format. */
function checkToolBlock(
  { type, id, name, tool_use_id: callId, content }: JsonObject,
  field: string,
): Failure | undefined {
  if (type === "tool_use") return checkName(id, `${field}.id`) ?? checkName(name, `${field}.name`)
  if (type !== "tool_result") return undefined
  const unnamed = checkName(callId, `${field}.tool_use_id`)
  if (unnamed || !present(content) || typeof content === "string") return unnamed
  if (!Array.isArray(content))
    return misshapen(`'${field}.content' is ${shown(content)}; it must be a string or an array of blocks.`)
  const blocks = readParts(content, `${field}.content`)
  return blocks instanceof Failure ? blocks : undefined
}

/** The results of tools and documents made of blocks carry blocks of their own. */
function addWithNested(all: JsonObject[], block: JsonObject): void {
  all.push(block)
  const { content, source } = block
  for (const inner of [content, isObject(source) ? source["content"] : undefined]) {
    if (Array.isArray(inner)) for (const nested of inner) if (isObject(nested)) addWithNested(all, nested)
  }
}

export function readSystem(value: Json | undefined): Failure | undefined {
  if (!present(value) || typeof value === "string") return undefined
  if (!Array.isArray(value))
    return misshapen(`'system' is ${shown(value)}; it must be a string or an array of text blocks.`)
  const blocks = readParts(value, "system")
  if (blocks instanceof Failure) return blocks
  return firstFailure(blocks, (block, index) =>
    block["type"] === "text" && typeof block["text"] === "string"
      ? undefined
      : misshapen(`'system[${index}]' is a block of type ${shown(block["type"])}; it must be a text block.`),
  )
}

/** The mark of a block, as the field that parts have it in; nothing where there is none. */
export function readCache({ cache_control: mark }: JsonObject): { readonly cache?: CacheMark } {
  if (!isObject(mark)) return {}
  return { cache: { ttl: typeof mark["ttl"] === "string" ? mark["ttl"] : undefined } }
}

export const cacheControl = (cache: CacheMark | undefined): JsonObject =>
  cache === undefined
    ? {}
    : { cache_control: { type: "ephemeral", ...(cache.ttl !== undefined && { ttl: cache.ttl }) } }

/** The vendor refuses more. */
export const MOST_MARKS = 4

/** Changes tools, system blocks and messages, in the order of the prompt. A mark is for all that stands before it, so the last ones stay. */
export function keepLastMarks(blocks: readonly JsonObject[]): void {
  const all: JsonObject[] = []
  for (const block of blocks) addWithNested(all, block)
  const marked = all.filter(({ cache_control: mark }) => present(mark))
  for (const block of marked.slice(0, -MOST_MARKS)) delete block["cache_control"]
}

export const SEARCH_TOOL = "web_search"

/** The error codes of the vendor's SDK. */
export type SearchErrorCode =
  | "invalid_tool_input"
  | "unavailable"
  | "max_uses_exceeded"
  | "too_many_requests"
  | "query_too_long"

export interface FoundPage {
  readonly url: string
  readonly title: string
  readonly snippet: string
  readonly published: string | undefined
}

/**
 * Names the `place`th search of one turn of one call, counted from 0. The place tells, when the blocks come back, which
 * searches the model asked for at once.
 */
export const searchId = (requestId: string, turn: number, place: number): string =>
  `srvtoolu_${requestId.replace(/^req_/, "").replaceAll("-", "_")}_${turn}_${place}`

/** Whether a search belongs to the turn of the one before it. An id of the vendor's own has no such ending. */
export const continuesTurn = (id: string): boolean => /_\d_[1-9]\d*$/.test(id)

export const searchBlock = (id: string, input: JsonObject): JsonObject => ({
  type: "server_tool_use",
  id,
  name: SEARCH_TOOL,
  input,
  caller: { type: "direct" },
})

export const resultBlock = (id: string, found: readonly FoundPage[] | SearchErrorCode): JsonObject => ({
  type: "web_search_tool_result",
  tool_use_id: id,
  content:
    typeof found === "string"
      ? { type: "web_search_tool_result_error", error_code: found }
      : found.map(({ url, title, snippet, published }) => ({
          type: "web_search_result",
          url,
          title,
          encrypted_content: seal(snippet),
          page_age: published ?? null,
        })),
  caller: { type: "direct" },
})

/** The same search as calls of a plain tool have it: what the backend is told. */
export const plainCall = ({ id, input }: JsonObject): JsonObject => ({
  type: "tool_use",
  id: plainId(id),
  name: SEARCH_TOOL,
  input: isObject(input) ? input : {},
})

export function plainResult(id: Json | undefined, result: JsonObject | undefined, cited: boolean): JsonObject {
  const plain = (content: Json, isError = false): JsonObject => ({
    type: "tool_result",
    tool_use_id: plainId(id),
    content,
    ...(isError && { is_error: true }),
    ...(isObject(result?.["cache_control"]) && { cache_control: result["cache_control"] }),
  })
  const content = result?.["content"]
  if (Array.isArray(content)) {
    const pages = content.filter((page) => isObject(page)).map((page) => plainPage(page, cited))
    return plain(pages.length > 0 ? pages : "Nothing was found.")
  }
  const code = isObject(content) ? content["error_code"] : undefined
  return plain(typeof code === "string" ? `The search failed: ${code}.` : "The search was not run.", true)
}

function plainPage({ url, title, encrypted_content: sealed, page_age: age }: JsonObject, cited: boolean): JsonObject {
  const source = typeof url === "string" ? url : ""
  const name = typeof title === "string" && title !== "" ? title : source
  const published = typeof age === "string" && age !== "" ? `Published: ${age}\n` : ""
  // The vendor refuses a text without any.
  const text = `${published}${unseal(sealed)}` || name || "No excerpt."
  return {
    type: "search_result",
    source,
    title: name,
    content: [{ type: "text", text }],
    ...(cited && { citations: { enabled: true } }),
  }
}

const plainId = (id: Json | undefined): string => (typeof id === "string" ? id.replace(/^srvtoolu_/, "toolu_") : "")

/** A citation of a page that the gateway found, in the words of the format's own web search. */
export function webCitation(citation: JsonObject): JsonObject {
  const { source, title, cited_text: text, search_result_index: result, start_block_index: block } = citation
  return {
    type: "web_search_result_location",
    cited_text: text ?? "",
    url: source ?? "",
    title: title ?? null,
    encrypted_index: seal(JSON.stringify([result ?? 0, block ?? 0])),
  }
}

const SEAL = "loket1."

export const seal = (text: string): string => SEAL + Buffer.from(text).toString("base64")

/** Empty for what another sealed: its address and title are all that can be told of it. */
export const unseal = (sealed: Json | undefined): string =>
  typeof sealed === "string" && sealed.startsWith(SEAL)
    ? Buffer.from(sealed.slice(SEAL.length), "base64").toString()
    : ""

// The ids of calls, of which the vendor takes letters, digits, `_` and `-`. Other models make ids of other characters.

/** A call and its result are written alike, so they still belong together. */
export const writtenId = (id: string): string => id.replace(/[^\w-]/g, "_") || "_"

/**
 * The backend refuses two calls of one id in all of a conversation. Models of other vendors may have begun their ids anew in each answer. A
 * result is of the first call of its id that has none.
 */
export function withOwnIds(turns: readonly Turn[]): readonly Turn[] {
  const taken = new Set<string>()
  /** How far the numbers behind a written id have come, so that no use of it counts from the first again. */
  const numbers = new Map<string, number>()
  const calls = new Map<string, { answered: number; readonly ids: string[] }>()
  const ownId = (id: string): string => {
    const written = writtenId(id)
    let number = numbers.get(written) ?? 1
    let own = number === 1 ? written : `${written}_${++number}`
    while (taken.has(own)) own = `${written}_${++number}`
    numbers.set(written, number)
    taken.add(own)
    const ofId = calls.get(id)
    if (ofId === undefined) calls.set(id, { answered: 0, ids: [own] })
    else ofId.ids.push(own)
    return own
  }
  const answeredId = (id: string): string => {
    const ofId = calls.get(id)
    return ofId?.ids[ofId.answered++] ?? ofId?.ids.at(-1) ?? id
  }
  return turns.map((turn): Turn => {
    if (turn.role === "assistant") {
      const parts = turn.parts.map((part) => (part.type === "tool-call" ? { ...part, id: ownId(part.id) } : part))
      return { ...turn, parts }
    }
    if (turn.role !== "user") return turn
    const parts = turn.parts.map((part) =>
      part.type === "tool-result" ? { ...part, callId: answeredId(part.callId) } : part,
    )
    return { ...turn, parts }
  })
}

/** Changes `body`, which is the copy that is to be forwarded; what lies within it is replaced, never changed. */
export function withWrittenIds(body: JsonObject): void {
  const { messages } = body
  if (Array.isArray(messages)) body["messages"] = replaced(messages, withIds)
}

const withIds = (message: Json): Json => {
  if (!isObject(message) || !Array.isArray(message["content"])) return message
  const content = replaced(message["content"], withId)
  return content === message["content"] ? message : { ...message, content }
}

const withId = (block: Json): Json => {
  if (!isObject(block)) return block
  const name = block["type"] === "tool_use" ? "id" : block["type"] === "tool_result" ? "tool_use_id" : undefined
  const id = name === undefined ? undefined : block[name]
  if (name === undefined || typeof id !== "string") return block
  const written = writtenId(id)
  return written === id ? block : { ...block, [name]: written }
}

/** The same list where nothing in it is another. */
function replaced(list: Json[], replace: (item: Json) => Json): Json[] {
  const items = list.map(replace)
  return items.every((item, place) => item === list[place]) ? list : items
}
