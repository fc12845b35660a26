/**
 * The messages of a chat request, into instructions and turns. A run of tool messages is one user turn of results. The
 * older `function_call` had no ids: a call gets one from its place in the conversation, which stays as that grows. Data URLs
 * become data, other URLs stay URLs: the gateway never fetches an address that a client names (decisions §7).
 *
 * Below that, the same messages as a chat backend wants them whose template refuses some (`adaptMessages`).
 */
import { Failure } from "../../failure/failure.ts"
import {
  filled,
  isObject,
  type Json,
  type JsonObject,
  misshapen,
  notServed,
  present,
  readObjects,
  readParts,
  shown,
} from "../../language/json.ts"
import type {
  AssistantPart,
  CacheMark,
  DataSource,
  DocumentPart,
  ImagePart,
  RefusalPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
  Turn,
} from "../../language/prompt.ts"
import type { Need } from "../../language/request.ts"

export interface Conversation {
  readonly instructions: readonly TextPart[]
  readonly turns: readonly Turn[]
}

export function readConversation(messages: readonly JsonObject[]): Conversation | Failure {
  const instructions: TextPart[] = []
  const turns: Turn[] = []
  /** The results of the run of tool messages under way. */
  let results: ToolResultPart[] = []
  let functionCall: string | undefined
  for (const [index, message] of messages.entries()) {
    const field = `messages[${index}]`
    const { role } = message
    if (role === "tool" || role === "function") {
      const callId = role === "tool" ? message.tool_call_id : functionCall
      const result = readResult(message, callId, field)
      if (result instanceof Failure) return result
      if (results.length === 0) turns.push({ role: "user", parts: results })
      results.push(result)
      continue
    }
    results = []
    if (role === "user") {
      const parts = readContent(markedContent(message), field)
      if (parts instanceof Failure) return parts
      turns.push({ role, parts })
    } else if (role === "assistant") {
      const parts = readAssistant(message, field, `call_${index}`)
      if (parts instanceof Failure) return parts
      if (present(message.function_call)) functionCall = `call_${index}`
      if (parts.length > 0) turns.push({ role, parts })
    } else {
      const texts = readTexts(markedContent(message), field)
      if (texts instanceof Failure) return texts
      if (turns.length === 0) for (const text of texts) instructions.push(text)
      else if (texts.length > 0) turns.push({ role: "system", parts: texts })
    }
  }
  return { instructions, turns }
}

function readResult(message: JsonObject, callId: JsonObject[string], field: string): ToolResultPart | Failure {
  if (typeof callId !== "string" || callId === "")
    return message.role === "tool"
      ? misshapen(`'${field}.tool_call_id' is ${shown(callId)}; it must be the id of a tool call.`)
      : misshapen(`'${field}' answers a function that no message before it calls.`)
  const parts = readContent(message.content, field)
  if (parts instanceof Failure) return parts
  return { type: "tool-result", callId, parts, isError: false, cache: cacheMark(message) }
}

function readAssistant(message: JsonObject, field: string, functionCallId: string): AssistantPart[] | Failure {
  const said = readSaid(markedContent(message), field)
  if (said instanceof Failure) return said
  const calls = readObjects(message.tool_calls, `${field}.tool_calls`)
  if (calls instanceof Failure) return calls
  // Thinking comes first, as it was thought first; it carries no seal, for this format has none.
  const thinking = [message.reasoning_content, message.reasoning].find(filled)
  const parts: AssistantPart[] =
    typeof thinking === "string" ? [{ type: "thinking", text: thinking, seal: undefined }] : []
  for (const part of said) parts.push(part)
  if (typeof message.refusal === "string" && message.refusal !== "")
    parts.push({ type: "refusal", text: message.refusal })
  for (const [index, call] of calls.entries()) {
    const where = `${field}.tool_calls[${index}]`
    const part = readCall(call, call.id, where)
    if (part instanceof Failure) return part
    parts.push(part)
  }
  if (!present(message.function_call)) return parts
  const older = readCall({ function: message.function_call }, functionCallId, `${field}.function_call`)
  return older instanceof Failure ? older : [...parts, older]
}

function readCall(call: JsonObject, id: JsonObject[string], field: string): ToolCallPart | Failure {
  if (typeof id !== "string" || id === "")
    return misshapen(`'${field}.id' is ${shown(id)}; it must be a string that is not empty.`)
  const custom = call.type === "custom"
  const said = custom ? call.custom : call.function
  if (!isObject(said)) return misshapen(`'${field}' names no function; it must be an object that does.`)
  const { name } = said
  if (typeof name !== "string" || name === "")
    return misshapen(`'${field}' has a name that is ${shown(name)}; it must be a string that is not empty.`)
  const text = custom ? said.input : said.arguments
  if (present(text) && typeof text !== "string")
    return misshapen(`'${field}' has arguments that are ${shown(text)}; they must be a string.`)
  const none = custom ? "" : "{}"
  return { type: "tool-call", id, name, arguments: text === "" ? none : (text ?? none), custom }
}

// The parts of a chat message's content, into the neutral language. Data URLs become data, other URLs stay URLs: the
// gateway never fetches an address that a client names (decisions §7).

export type ContentPart = TextPart | ImagePart | DocumentPart

/** Content that may hold anything; texts that say nothing are left out. */
const readContent = (content: Json | undefined, field: string): ContentPart[] | Failure =>
  readEach(content, field, readPart)

/** Content of roles that say nothing but text. */
const readTexts = (content: Json | undefined, field: string): TextPart[] | Failure => readEach(content, field, readText)

/** What an assistant said: text, and refusals among it. */
const readSaid = (content: Json | undefined, field: string): (TextPart | RefusalPart)[] | Failure =>
  readEach(content, field, (part, where) =>
    part.type === "refusal" && typeof part.refusal === "string"
      ? ({ type: "refusal", text: part.refusal } as const)
      : readText(part, where),
  )

function readEach<Part extends ContentPart | RefusalPart>(
  content: Json | undefined,
  field: string,
  readOne: (part: JsonObject, field: string) => Part | Failure,
): Part[] | Failure {
  const parts = readParts(asParts(content), `${field}.content`)
  if (parts instanceof Failure) return parts
  const found: Part[] = []
  for (const [index, part] of parts.entries()) {
    const one = readOne(part, `${field}.content[${index}]`)
    if (one instanceof Failure) return one
    if (!("text" in one) || one.text !== "") found.push(one)
  }
  return found
}

const asParts = (content: Json | undefined): Json | undefined =>
  typeof content === "string" ? [{ type: "text", text: content }] : content

/** SDKs write a cache mark beside a content that is a string, where it has no part to stand on: it is that of the last part. */
function markedContent({ content, cache_control: mark }: JsonObject): Json | undefined {
  const parts = asParts(content)
  const last = Array.isArray(parts) ? parts.at(-1) : undefined
  if (!present(mark) || !Array.isArray(parts) || !isObject(last)) return content
  return [...parts.slice(0, -1), { cache_control: mark, ...last }]
}

function readPart(part: JsonObject, field: string): ContentPart | Failure {
  if (part.type === "image_url") return readImage(part, field)
  if (part.type === "file") return readDocument(part, field)
  return readText(part, field)
}

function readText(part: JsonObject, field: string): TextPart | Failure {
  const { type, text } = part
  if (type !== "text") return notServed(`'${field}' is of type ${shown(type)}, which is not served in this place.`)
  if (typeof text !== "string") return misshapen(`'${field}.text' is ${shown(text)}; it must be a string.`)
  return { type: "text", text, cache: cacheMark(part) }
}

/** Some clients write the address alone, without the object around it. */
function readImage(part: JsonObject, field: string): ImagePart | Failure {
  const image: JsonObject = isObject(part.image_url) ? part.image_url : { url: part.image_url }
  const { url, detail } = image
  if (typeof url !== "string")
    return misshapen(`'${field}.image_url.url' is ${shown(url)}; it must be a data: or http(s) URL.`)
  const source = /^https?:/i.test(url) ? ({ kind: "url", url } as const) : readDataUrl(url)
  if (source === undefined)
    return misshapen(`'${field}.image_url.url' is neither an http(s) URL nor a data: URL in base64.`)
  return { type: "image", source, detail: typeof detail === "string" ? detail : undefined, cache: cacheMark(part) }
}

function readDocument(part: JsonObject, field: string): DocumentPart | Failure {
  const file: JsonObject = isObject(part.file) ? part.file : {}
  const data = typeof file.file_data === "string" ? readFileData(file.file_data) : undefined
  if (data === undefined)
    return misshapen(`'${field}.file.file_data' must be a data: URL in base64, or the base64 of a PDF.`)
  const name = typeof file.filename === "string" && file.filename !== "" ? file.filename : undefined
  const source = data.mediaType.startsWith("text/") ? ({ kind: "text", text: decodeText(data) } as const) : data
  return { type: "document", source, name, cache: cacheMark(part) }
}

/** Written without its `data:` head, a file is what it nearly always is. */
const readFileData = (data: string): DataSource | undefined =>
  /^[A-Za-z0-9+/=_-]+$/.test(data.slice(0, LONGEST_HEAD))
    ? { kind: "data", mediaType: "application/pdf", base64: data }
    : readDataUrl(data)

const decodeText = ({ base64 }: DataSource): string => Buffer.from(base64, "base64").toString("utf8")

/** Longer heads than this are no media types; what follows may be megabytes. */
const LONGEST_HEAD = 256

function readDataUrl(url: string): DataSource | undefined {
  const head = /^data:([^;,]+)(?:;[^;,]+)*;base64,/i.exec(url.slice(0, LONGEST_HEAD))
  const mediaType = head?.[1]
  if (head === null || mediaType === undefined || url.length === head[0].length) return undefined
  return { kind: "data", mediaType: mediaType.toLowerCase(), base64: url.slice(head[0].length) }
}

/** Not of the format's own, but what clients of models with a marked cache write on it everywhere. */
export function cacheMark(part: JsonObject): CacheMark | undefined {
  const mark = part.cache_control
  if (!isObject(mark) || !present(mark.type)) return undefined
  return { ttl: typeof mark.ttl === "string" ? mark.ttl : undefined }
}

/** As a backend wants them whose template refuses what others take (catalogue `needs`). A message that needs no change is the same object. */
export function adaptMessages(messages: Json | undefined, needs: readonly Need[]): Json | undefined {
  if (!Array.isArray(messages)) return messages
  let all: readonly Json[] = messages
  if (needs.includes("system_first")) all = systemFirst(all)
  if (needs.includes("system_role"))
    all = all.map((one) => (isObject(one) && one.role === "developer" ? { ...one, role: "system" } : one))
  if (needs.includes("answer_after_tools"))
    all = all.flatMap((one, at) => (isResult(all[at - 1]) && hasRole(one, "user") ? [{ ...ANSWER }, one] : [one]))
  return needs.includes("short_call_ids") ? all.map(withShortIds) : [...all]
}

const ANSWER = { role: "assistant", content: "Done." }

const hasRole = (message: Json | undefined, ...roles: readonly Json[]): message is JsonObject =>
  isObject(message) && roles.includes(message.role ?? null)
const isResult = (message: Json | undefined): boolean => hasRole(message, "tool", "function")
const isSystem = (message: Json | undefined): message is JsonObject => hasRole(message, "system", "developer")

/** What follows is folded into the first, as it is where a request is translated. */
function systemFirst(messages: readonly Json[]): readonly Json[] {
  const [first, ...later] = messages.filter(isSystem)
  if (first === undefined || (later.length === 0 && messages[0] === first)) return messages
  const parts = [first, ...later].flatMap(({ content }) => asParts(content) ?? []).filter(isObject)
  const texts = parts.flatMap(({ text }) => (typeof text === "string" && text !== "" ? [text] : []))
  const content = parts.every(({ type }) => type === "text") ? texts.join("\n\n") : parts
  return [{ ...first, content }, ...messages.filter((one) => !isSystem(one))]
}

function withShortIds(message: Json): Json {
  if (!isObject(message)) return message
  const { tool_calls: calls, tool_call_id: id } = message
  const written = { ...message }
  if (Array.isArray(calls))
    written.tool_calls = calls.map((call) => (isObject(call) ? { ...call, id: shortId(call.id) } : call))
  if (present(id)) written.tool_call_id = shortId(id)
  return written
}

/** Of exactly nine letters and digits, as Mistral's templates want it. */
const shortId = (id: Json | undefined): Json | undefined =>
  typeof id !== "string" || /^[A-Za-z0-9]{9}$/.test(id)
    ? id
    : new Bun.CryptoHasher("sha256").update(id).digest("hex").slice(0, 9)
