/**
 * What a client's answer consists of: the items of its output and the response around them. A stream tells each item
 * twice and the whole again at its end, a reply tells it once; all come from here.
 */
import type { FinishReason, Seal, Usage } from "../../language/prompt.ts"
import { isObject, type Json, type JsonObject, present } from "../../language/json.ts"
import type { AnswerView } from "../format.ts"
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
  encrypted_content: seal ? sealedContent(seal) : null,
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

export function readSeal(content: string): Seal {
  const by = FOREIGN.find((by) => content.startsWith(envelope(by)))
  return by === undefined ? { by: "responses", data: content } : { by, data: content.slice(envelope(by).length) }
}
