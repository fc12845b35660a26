/**
 * The items of a conversation: what was said, thought and called, one after another, without turns. They are gathered
 * into turns here, neighbours of one role in one, because the other formats keep an answer's thinking, text and calls
 * in one message. Items that are no part of what was said (a search at the backend, tools told later) are left out; an
 * item that is not understood is refused, for leaving it out would change the conversation.
 */
import { Failure } from "../../failure/failure.ts"
import {
  isObject,
  type Json,
  type JsonObject,
  misshapen,
  notServed,
  present,
  readParts,
  readText,
  shown,
} from "../../language/json.ts"
import type {
  AssistantPart,
  DocumentPart,
  ImagePart,
  Prompt,
  Seal,
  TextPart,
  ThinkingPart,
  ToolCallPart,
  Turn,
  UserPart,
} from "../../language/prompt.ts"
import { toolNames } from "../shared/tools.ts"
import { readDataUrl, readSeal, UNSEALED } from "./items-out.ts"
import { flatName, nameOf, TOOL_NAMES, type ToolName } from "./tools.ts"

const LEFT_OUT: readonly unknown[] = [
  "web_search_call",
  "tool_search_call",
  "tool_search_output",
  "additional_tools",
  "mcp_list_tools",
]

export interface Conversation {
  readonly instructions: readonly TextPart[]
  readonly turns: readonly Turn[]
}

export function decodeItems(input: Json | undefined): Conversation | Failure {
  const gathered = new Gathering()
  if (typeof input === "string") gathered.user([{ type: "text", text: input }])
  for (const [index, item] of (Array.isArray(input) ? input.filter(isObject) : []).entries()) {
    const failure = take(item, `input[${index}]`, gathered)
    if (failure) return failure
  }
  return gathered
}

class Gathering implements Conversation {
  readonly instructions: TextPart[] = []
  readonly turns: Turn[] = []
  #user: UserPart[] | undefined
  #assistant: AssistantPart[] | undefined

  user(parts: readonly UserPart[]): void {
    if (parts.length === 0) return
    if (this.#user === undefined) this.turns.push({ role: "user", parts: (this.#user = []) })
    this.#assistant = undefined
    this.#user.push(...parts)
  }

  assistant(parts: readonly AssistantPart[]): void {
    if (parts.length === 0) return
    if (this.#assistant === undefined) this.turns.push({ role: "assistant", parts: (this.#assistant = []) })
    this.#user = undefined
    this.#assistant.push(...parts)
  }

  /** Before the first turn it is an instruction. */
  system(parts: readonly TextPart[]): void {
    if (this.turns.length === 0) this.instructions.push(...parts)
    else if (parts.length > 0) {
      this.turns.push({ role: "system", parts })
      this.#user = undefined
      this.#assistant = undefined
    }
  }
}

function take(item: JsonObject, field: string, gathered: Gathering): Failure | undefined {
  const { type } = item
  if (type === "message" || !present(type)) return takeMessage(item, field, gathered)
  if (type === "function_call_output" || type === "custom_tool_call_output") return takeResult(item, field, gathered)
  if (type === "agent_message") return takeAgentMessage(item, field, gathered)
  if (LEFT_OUT.includes(type)) return undefined
  const parts = answerParts(item, field)
  if (parts instanceof Failure) return parts
  gathered.assistant(parts)
  return undefined
}

function takeMessage({ role, content }: JsonObject, field: string, gathered: Gathering): Failure | undefined {
  if (role === "user") {
    const parts = inputParts(content, `${field}.content`)
    if (parts instanceof Failure) return parts
    gathered.user(parts)
    return undefined
  }
  if (role === "assistant") {
    const parts = assistantParts(content, `${field}.content`)
    if (parts instanceof Failure) return parts
    gathered.assistant(parts)
    return undefined
  }
  const parts = textParts(content, `${field}.content`)
  if (parts instanceof Failure) return parts
  gathered.system(parts)
  return undefined
}

/** An output without a call is its client's own (Codex tells so what another thread says), and answers nothing: the user says it. */
function takeResult(item: JsonObject, field: string, gathered: Gathering): Failure | undefined {
  const tool = present(item["call_id"]) ? undefined : nameOf(item)
  const callId = tool === undefined ? readString(item, "call_id", field) : ""
  if (callId instanceof Failure) return callId
  const parts = inputParts(item["output"], `${field}.output`)
  if (parts instanceof Failure) return parts
  if (tool === undefined) gathered.user([{ type: "tool-result", callId, parts, isError: false }])
  else gathered.user([{ type: "text", text: `[Output of ${flatName(tool)}]` }, ...parts])
  return undefined
}

/**
 * What another of the client's agents tells the model. A model whose backend seals nothing writes the text itself where the client
 * takes it for sealed; what is sealed only its own backend could read.
 */
function takeAgentMessage({ content }: JsonObject, field: string, gathered: Gathering): Failure | undefined {
  const parts = partsOf<InputPart>(content, `${field}.content`, (part, where) => {
    if (part["type"] !== "encrypted_content") return inputPart(part, where)
    const text = readText(part["encrypted_content"])
    return SEALED.test(text)
      ? notServed(`'${where}' is sealed, and this model cannot read it.`)
      : textPart({ type: "text", text }, where)
  })
  if (parts instanceof Failure) return parts
  gathered.user(parts)
  return undefined
}

/** How what is sealed begins (https://github.com/fernet/spec): a version, and the first bytes of a time. */
const SEALED = /^gAAAA/

/** Whose item it is. Only a client's carries what this gateway put into it: flat names and foreign seals. */
export interface Side {
  readonly callName: (name: ToolName) => string
  readonly callId: (call: JsonObject, field: string) => string | Failure
  readonly seal: (content: string) => Seal | undefined
}

const client: Side = {
  callName: flatName,
  callId: (call, field) => readString(call, "call_id", field),
  seal: readSeal,
}

/** The backend that was asked this prompt. */
export function backendSide(prompt: Prompt): Side {
  const names = toolNames(prompt, TOOL_NAMES)
  return {
    callName: ({ name }) => names.original(name),
    // A call without one is given one with the whole answer (`CallIds`).
    callId: (call) => readText(call["call_id"]),
    // It may be a gateway like this one.
    seal: (data) => (data === UNSEALED ? undefined : { by: "responses", data }),
  }
}

/** What an item of an answer says; the same in a conversation and in the answer itself. */
export function answerParts(item: JsonObject, field: string, side: Side = client): AssistantPart[] | Failure {
  const { type } = item
  if (type === "message") return assistantParts(item["content"], `${field}.content`)
  if (type === "reasoning") return thinkingParts(item, side)
  if (type !== "function_call" && type !== "custom_tool_call")
    return notServed(`'${field}' is an item of type ${shown(type)}, which this model cannot be given.`)
  const call = callPart(item, field, side)
  return call instanceof Failure ? call : [call]
}

/** Of an item of a backend's answer, where it can be read. */
export const firstPart = (item: JsonObject, side: Side): AssistantPart | undefined => {
  const parts = answerParts(item, "output", side)
  return parts instanceof Failure ? undefined : parts[0]
}

function callPart(item: JsonObject, field: string, side: Side): ToolCallPart | Failure {
  const custom = item["type"] === "custom_tool_call"
  const id = side.callId(item, field)
  if (id instanceof Failure) return id
  const name = nameOf(item)
  if (name === undefined) return misshapen(`'${field}.name' is ${shown(item["name"])}; it must name a tool.`)
  const text = item[custom ? "input" : "arguments"] ?? ""
  if (typeof text !== "string") return misshapen(`'${field}' is a call whose arguments are ${shown(text)}, not a text.`)
  return { type: "tool-call", id, name: side.callName(name), arguments: custom || text !== "" ? text : "{}", custom }
}

function thinkingParts({ summary, content, encrypted_content: sealed }: JsonObject, side: Side): ThinkingPart[] {
  const text = joined(summary) || joined(content)
  const seal = typeof sealed === "string" && sealed !== "" ? side.seal(sealed) : undefined
  return text === "" && seal === undefined ? [] : [{ type: "thinking", text, seal }]
}

export const joined = (parts: Json | undefined): string =>
  (Array.isArray(parts) ? parts.filter(isObject) : [])
    .map(({ text }) => (typeof text === "string" ? text : ""))
    .filter((text) => text !== "")
    .join("\n\n")

function readString(item: JsonObject, name: string, field: string): string | Failure {
  const value = item[name]
  return typeof value === "string" && value !== ""
    ? value
    : misshapen(`'${field}.${name}' is ${shown(value)}; it must be a string that is not empty.`)
}

// The parts of messages and of tools' outputs: text, images and files. A part of empty text is no part.

export type InputPart = TextPart | ImagePart | DocumentPart

/** `text` is how compatible clients call either of the other two. */
const TEXTS: readonly unknown[] = ["input_text", "output_text", "text"]

const inputParts = (content: Json | undefined, field: string): InputPart[] | Failure =>
  partsOf(content, field, inputPart)

const assistantParts = (content: Json | undefined, field: string): AssistantPart[] | Failure =>
  partsOf<AssistantPart>(content, field, (part, field) =>
    part["type"] === "refusal" ? refusalPart(part, field) : textPart(part, field),
  )

const textParts = (content: Json | undefined, field: string): TextPart[] | Failure =>
  partsOf<TextPart>(content, field, textPart)

type Read<T> = (part: JsonObject, field: string) => T | undefined | Failure

function partsOf<T>(content: Json | undefined, field: string, read: Read<T | TextPart>): (T | TextPart)[] | Failure {
  if (!present(content) || content === "") return []
  if (typeof content === "string") return [{ type: "text", text: content }]
  const list = readParts(content, field)
  if (list instanceof Failure) return list
  const parts: (T | TextPart)[] = []
  for (const [index, one] of list.entries()) {
    const part = read(one, `${field}[${index}]`)
    if (part instanceof Failure) return part
    if (part !== undefined) parts.push(part)
  }
  return parts
}

function inputPart(part: JsonObject, field: string): InputPart | undefined | Failure {
  if (part["type"] === "input_image") return imagePart(part, field)
  return part["type"] === "input_file" ? documentPart(part, field) : textPart(part, field)
}

function textPart(part: JsonObject, field: string): TextPart | undefined | Failure {
  const { type, text } = part
  if (!TEXTS.includes(type)) return notServed(`'${field}' is a part of type ${shown(type)}, which is not served here.`)
  if (typeof text !== "string") return misshapen(`'${field}.text' is ${shown(text)}; it must be a string.`)
  return text === "" ? undefined : { type: "text", text }
}

function refusalPart({ refusal }: JsonObject, field: string): AssistantPart | undefined | Failure {
  if (typeof refusal !== "string") return misshapen(`'${field}.refusal' is ${shown(refusal)}; it must be a string.`)
  return refusal === "" ? undefined : { type: "refusal", text: refusal }
}

function imagePart({ image_url: url, detail }: JsonObject, field: string): ImagePart | Failure {
  if (typeof url !== "string" || url === "")
    return misshapen(`'${field}.image_url' is ${shown(url)}; it must be a URL or a data URL.`)
  const data = readDataUrl(url)
  if (data === undefined && url.startsWith("data:"))
    return misshapen(`'${field}.image_url' must be a data URL with a media type and base64.`)
  return {
    type: "image",
    source: data ?? { kind: "url", url },
    detail: typeof detail === "string" ? detail : undefined,
  }
}

function documentPart(part: JsonObject, field: string): DocumentPart | Failure {
  const { file_data: data, file_url: url, filename } = part
  const name = typeof filename === "string" && filename !== "" ? filename : undefined
  if (typeof data === "string" && data !== "") {
    // Written without its `data:` head, a file is what it nearly always is.
    const source = readDataUrl(data) ?? ({ kind: "data", mediaType: "application/pdf", base64: data } as const)
    return { type: "document", source, name }
  }
  if (typeof url === "string" && url !== "") return { type: "document", source: { kind: "url", url }, name }
  return misshapen(`'${field}' has neither 'file_data' nor 'file_url'.`)
}
