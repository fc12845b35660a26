/**
 * Items as they are written, towards both sides. First what a client's answer consists of: the items of its output and the
 * response around them. A stream tells each item twice and the whole again at its end, a reply tells it once; all come from
 * here.
 *
 * Then a conversation as the items that a responses backend takes. Item ids are not sent: they would name items that the
 * backend has stored, and nothing is stored there.
 */
import { unreachable } from "../../../actors/unreachable.ts"
import { isObject, type Json, type JsonObject, present } from "../../language/json.ts"
import {
  type AssistantPart,
  type DataSource,
  type DocumentPart,
  fileName,
  type FinishReason,
  type ImagePart,
  type Seal,
  type TextPart,
  type ToolResultPart,
  type Turn,
  type Usage,
  type UserPart,
} from "../../language/prompt.ts"
import type { AnswerView } from "../format.ts"
import type { ToolNames } from "../shared/tools.ts"
import { clientNames, type ToolName } from "./tools.ts"

export type Status = "in_progress" | "completed" | "incomplete"
export type ContentType = "output_text" | "refusal"

export interface Identity {
  readonly id: string
  /** Unix seconds. */
  readonly createdAt: number
}

/** A backend's id is kept where it is of this format; otherwise the answer is named after the request. */
export const identityOf = (view: AnswerView, backendId: string | undefined): Identity => ({
  id: backendId?.startsWith("resp_") ? backendId : `resp_${view.requestId.replace(/^req_/, "")}`,
  createdAt: Math.floor(view.nowMs / 1000),
})

export type ItemKind = "msg" | "rs" | "fc" | "ctc"

export const itemId = (kind: ItemKind, { id }: Identity, outputIndex: number): string =>
  `${kind}_${id.replace(/^resp_/, "")}_${outputIndex}`

export const contentPart = (type: ContentType, text: string): JsonObject =>
  type === "refusal" ? { type, refusal: text } : { type, annotations: [], logprobs: [], text }

export const messageItem = (id: string, status: Status, content: readonly Json[]): JsonObject => ({
  id,
  type: "message",
  status,
  role: "assistant",
  content: [...content],
})

export const reasoningItem = (id: string, text: string, seal: Seal | undefined): JsonObject => ({
  id,
  type: "reasoning",
  summary: text === "" ? [] : [summaryPart(text)],
  encrypted_content: seal ? sealedContent(seal) : text === "" ? null : UNSEALED,
})

export const summaryPart = (text: string): JsonObject => ({ type: "summary_text", text })

/** A call as the client knows it, by its tool's own name. */
export interface ClientCall extends ToolName {
  readonly callId: string
  readonly custom: boolean
}

export const callItem = (id: string, status: Status, call: ClientCall, text: string): JsonObject => ({
  id,
  type: call.custom ? "custom_tool_call" : "function_call",
  status,
  call_id: call.callId,
  name: call.name,
  ...(call.namespace === undefined ? {} : { namespace: call.namespace }),
  ...(call.custom ? { input: text } : { arguments: text }),
})

/** Finds out how the client calls what the backend called. */
export function callReader(view: AnswerView): (call: { id: string; name: string; custom: boolean }) => ClientCall {
  const names = clientNames(view.request.body)
  return ({ id, name, custom }) => ({ ...(names.get(name) ?? { name, namespace: undefined }), callId: id, custom })
}

/** The arguments of a finished call: those of a function are never empty. */
export const callText = (custom: boolean, text: string): string => (custom || text !== "" ? text : "{}")

export interface Outcome {
  readonly status: Status
  readonly finish: FinishReason | undefined
  readonly usage: Usage | undefined
  readonly output: readonly Json[]
}

export const begun: Outcome = { status: "in_progress", finish: undefined, usage: undefined, output: [] }

export const endOf = (finish: FinishReason | undefined): "completed" | "incomplete" =>
  finish === "length" || finish === "content-filter" ? "incomplete" : "completed"

const INCOMPLETE: Partial<Record<FinishReason, string>> = {
  length: "max_output_tokens",
  "content-filter": "content_filter",
}

/** With what the client asked for, as the format has it and its clients read it. */
export function responseObject(view: AnswerView, { id, createdAt }: Identity, outcome: Outcome): JsonObject {
  const { body } = view.request
  const reason = outcome.finish && INCOMPLETE[outcome.finish]
  const asked = (field: string, otherwise: Json): Json => body[field] ?? otherwise
  const reasoning = isObject(body["reasoning"]) ? body["reasoning"] : {}
  return {
    id,
    object: "response",
    created_at: createdAt,
    status: outcome.status,
    background: false,
    error: null,
    incomplete_details: reason === undefined ? null : { reason },
    // Not repeated: it may be long, and would be sent three times.
    instructions: null,
    max_output_tokens: asked("max_output_tokens", null),
    model: view.model,
    output: [...outcome.output],
    parallel_tool_calls: asked("parallel_tool_calls", true),
    previous_response_id: null,
    reasoning: { effort: reasoning["effort"] ?? null, summary: reasoning["summary"] ?? null },
    service_tier: "default",
    store: false,
    temperature: asked("temperature", null),
    text: { format: { type: "text" }, ...(isObject(body["text"]) ? body["text"] : {}) },
    tool_choice: asked("tool_choice", "auto"),
    tools: asked("tools", []),
    top_p: asked("top_p", null),
    truncation: "disabled",
    usage: outcome.usage ? encodeUsage(outcome.usage) : null,
    user: asked("user", null),
    metadata: asked("metadata", {}),
  }
}

function encodeUsage({ tokens, reasoning }: Usage): JsonObject {
  const input = tokens.input + tokens.cacheRead + tokens.cacheWrite
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: tokens.cacheRead, cache_write_tokens: tokens.cacheWrite },
    output_tokens: tokens.output,
    output_tokens_details: { reasoning_tokens: present(reasoning) ? reasoning : 0 },
    total_tokens: input + tokens.output,
  }
}

// Another format's seal on thinking, carried in the `encrypted_content` of a reasoning item: the one field of this
// format that its clients keep and send back untouched. A messages backend takes its own thinking back only with its
// signature, so without the envelope a conversation through this format would lose it after one turn.

const envelope = (by: Seal["by"]): string => `loket.${by}.`
const FOREIGN: readonly Seal["by"][] = ["messages", "messages-redacted"]

const sealedContent = ({ by, data }: Seal): string => (by === "responses" ? data : envelope(by) + data)

/** Where nobody sealed it. The AI SDK sends no reasoning back that has nothing here, and some backends refuse a call's result without it. */
export const UNSEALED = "loket.unsealed."

export function readSeal(content: string): Seal | undefined {
  if (content === UNSEALED) return undefined
  const by = FOREIGN.find((by) => content.startsWith(envelope(by)))
  return by === undefined ? { by: "responses", data: content } : { by, data: content.slice(envelope(by).length) }
}

/** The backend refuses longer ones. */
const LONGEST_CALL_ID = 64
/** What a tool's result begins with when the tool failed, which this format has no field for. */
const ERROR_MARK = "[The tool failed]"

export function encodeItems(turns: readonly Turn[], names: ToolNames): JsonObject[] {
  const customCalls = new Set(
    turns.flatMap(({ parts }) => parts.flatMap((part) => (part.type === "tool-call" && part.custom ? [part.id] : []))),
  )
  return turns.flatMap((turn) => {
    switch (turn.role) {
      case "user":
        return userItems(turn.parts, customCalls)
      case "assistant":
        return assistantItems(turn.parts, names)
      case "system":
        return developerItem(turn.parts)
      default:
        return unreachable(turn)
    }
  })
}

export const developerItem = (parts: readonly TextPart[]): JsonObject[] =>
  message("developer", parts.filter(saysSomething).map(inputPart))

/** The backend refuses a text with nothing in it. */
const saysSomething = (part: { readonly type: string; readonly text?: string }): boolean =>
  part.type !== "text" || part.text !== ""

const message = (role: string, content: readonly JsonObject[]): JsonObject[] =>
  content.length === 0 ? [] : [{ type: "message", role, content: [...content] }]

function userItems(parts: readonly UserPart[], customCalls: ReadonlySet<string>): JsonObject[] {
  const items: JsonObject[] = []
  let content: JsonObject[] = []
  for (const part of parts.filter(saysSomething)) {
    if (part.type !== "tool-result") {
      content.push(inputPart(part))
      continue
    }
    items.push(...message("user", content), resultItem(part, customCalls.has(part.callId)))
    content = []
  }
  return [...items, ...message("user", content)]
}

function assistantItems(parts: readonly AssistantPart[], names: ToolNames): JsonObject[] {
  const items: JsonObject[] = []
  let content: JsonObject[] = []
  for (const part of parts.filter(saysSomething)) {
    if (part.type === "text") content.push({ type: "output_text", text: part.text, annotations: [] })
    else if (part.type === "refusal") content.push({ type: "refusal", refusal: part.text })
    else {
      items.push(...message("assistant", content), ...thoughtOrCall(part, names))
      content = []
    }
  }
  return [...items, ...message("assistant", content)]
}

function thoughtOrCall(part: Exclude<AssistantPart, { type: "text" | "refusal" }>, names: ToolNames): JsonObject[] {
  if (part.type === "thinking") {
    // Only what this backend sealed means anything to it.
    if (part.seal?.by !== "responses") return []
    const summary = part.text === "" ? [] : [{ type: "summary_text", text: part.text }]
    return [{ type: "reasoning", summary, encrypted_content: part.seal.data }]
  }
  const call = { call_id: callId(part.id), name: names.written(part.name) }
  return [
    part.custom
      ? { type: "custom_tool_call", ...call, input: part.arguments }
      : { type: "function_call", ...call, arguments: part.arguments },
  ]
}

function resultItem({ callId: id, parts, isError }: ToolResultPart, custom: boolean): JsonObject {
  const marked: ToolResultPart["parts"] = isError ? [{ type: "text", text: ERROR_MARK }, ...parts] : parts
  const type = custom ? "custom_tool_call_output" : "function_call_output"
  const texts = marked.map((part) => (part.type === "text" ? part.text : undefined))
  const output = texts.every((text) => text !== undefined)
    ? texts.join("\n")
    : marked.filter(saysSomething).map(inputPart)
  return { type, call_id: callId(id), output }
}

/** A call and its result are shortened alike, so they still find each other. */
const callId = (id: string): string =>
  id.length <= LONGEST_CALL_ID ? id : `call_${new Bun.CryptoHasher("sha256").update(id).digest("base64url")}`

function inputPart(part: TextPart | ImagePart | DocumentPart): JsonObject {
  switch (part.type) {
    case "text":
      return { type: "input_text", text: part.text }
    case "image": {
      const url = part.source.kind === "data" ? dataUrl(part.source) : part.source.url
      return { type: "input_image", image_url: url, detail: part.detail ?? "auto" }
    }
    case "document":
      return documentPart(part)
    default:
      return unreachable(part)
  }
}

function documentPart({ source, name }: DocumentPart): JsonObject {
  if (source.kind === "text")
    return { type: "input_text", text: name === undefined ? source.text : `${name}\n\n${source.text}` }
  if (source.kind === "url") return { type: "input_file", file_url: source.url }
  return { type: "input_file", filename: fileName(name, source.mediaType), file_data: dataUrl(source) }
}

// `data:` URLs with base64 in them (RFC 2397), which is how this format carries images and files inline.

const dataUrl = ({ mediaType, base64 }: DataSource): string => `data:${mediaType};base64,${base64}`

/** Undefined where it is no such URL. Only the head is looked at: what follows may be megabytes, and so may the head. */
export function readDataUrl(url: string): DataSource | undefined {
  const comma = url.indexOf(",")
  if (comma < 0 || !url.slice(0, 5).toLowerCase().startsWith("data:")) return undefined
  const head = url.slice(5, comma)
  const end = head.indexOf(";")
  if (end < 1 || head.slice(head.lastIndexOf(";") + 1).toLowerCase() !== "base64") return undefined
  return { kind: "data", mediaType: head.slice(0, end), base64: url.slice(comma + 1) }
}
