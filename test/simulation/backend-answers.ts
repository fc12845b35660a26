/** What a modelled backend says, in the three formats: pieces of a stream, the last of them its terminal event, or a reply. */
import { unreachable } from "../../actors/unreachable.ts"
import type { Translated } from "../../src/language/request.ts"
import type { JsonObject } from "../../src/language/json.ts"
import type { SaidCounts } from "./stage.ts"

export interface Answer {
  readonly words: readonly string[]
  /** What it says it counted; undefined leaves the counts out. */
  readonly usage: SaidCounts | undefined
  /** It asks for a search of the web instead of saying that it is done. */
  readonly searches: boolean
  /** Searches that it ran by itself, which it counts where it counts. */
  readonly ran: number
}

export function streamOf(format: Translated, answer: Answer): string[] {
  switch (format) {
    case "chat":
      return chatStream(answer)
    case "messages":
      return messagesStream(answer)
    case "responses":
      return responsesStream(answer)
    default:
      return unreachable(format)
  }
}

export function replyOf(format: Translated, answer: Answer): JsonObject {
  const text = answer.words.join("")
  switch (format) {
    case "chat":
      return {
        ...chat,
        object: "chat.completion",
        choices: [{ index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" }],
        ...(answer.usage && { usage: chatUsage(answer.usage) }),
      }
    case "messages":
      return {
        ...message,
        content: [{ type: "text", text }, ...(answer.searches ? [search] : [])],
        stop_reason: answer.searches ? "tool_use" : "end_turn",
        stop_sequence: null,
        ...(answer.usage && { usage: messagesUsage(answer.usage, answer.ran) }),
      }
    case "responses":
      return responseOf(answer, "completed")
    default:
      return unreachable(format)
  }
}

/** What a backend that fails sends in the middle of its stream. */
export function errorEvent(format: Translated): string {
  switch (format) {
    case "chat":
      return data({ error: { message: "overloaded", type: "server_error", code: 500 } })
    case "messages":
      return event({ type: "error", error: { type: "overloaded_error", message: "Overloaded" } })
    case "responses":
      return event({
        type: "response.failed",
        response: { ...response, status: "failed", error: { code: "server_error", message: "x" } },
      })
    default:
      return unreachable(format)
  }
}

/** Whether an event of a stream has words, from which on its backend bills it. */
export const hasWords = (piece: string): boolean =>
  /"delta":\{"content":"[^"]|"text_delta"|output_text\.delta/.test(piece)

/** One event of so many more words, in the midst of the others. */
export function wordEvent(format: Translated, text: string): string {
  switch (format) {
    case "chat":
      return chatChunk({ content: text })
    case "messages":
      return event({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } })
    case "responses":
      return event({ type: "response.output_text.delta", ...at, delta: text })
    default:
      return unreachable(format)
  }
}

const data = (body: JsonObject): string => `data: ${JSON.stringify(body)}\n\n`
const event = (body: JsonObject & { readonly type: string }): string =>
  `event: ${body.type}\ndata: ${JSON.stringify(body)}\n\n`

const chat = { id: "chatcmpl-1", created: 1, model: "backend" }
const total = ({ input = 0, output = 0 }: SaidCounts) => input + output
const chatUsage = (counts: SaidCounts) => ({
  prompt_tokens: counts.input,
  completion_tokens: counts.output,
  total_tokens: total(counts),
})

const chatChunk = (delta: JsonObject, finish: string | null = null) =>
  data({ ...chat, object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason: finish }] })

function chatStream({ words, usage }: Answer): string[] {
  return [
    chatChunk({ role: "assistant", content: "" }),
    ...words.map((text) => wordEvent("chat", text)),
    chatChunk({}, "stop"),
    (usage === undefined
      ? ""
      : data({ ...chat, object: "chat.completion.chunk", choices: [], usage: chatUsage(usage) })) + "data: [DONE]\n\n",
  ]
}

const message = { id: "msg_1", type: "message", role: "assistant", model: "backend" }
const search = { type: "tool_use", id: "toolu_1", name: "web_search", input: { query: "what is new" } }
const messagesUsage = ({ input, output }: SaidCounts, ran = 0) => ({
  input_tokens: input,
  output_tokens: output,
  ...ranBy(ran),
})
const ranBy = (ran: number) => (ran > 0 ? { server_tool_use: { web_search_requests: ran } } : {})

function messagesStream({ words, usage, searches, ran }: Answer): string[] {
  const start = usage && { usage: messagesUsage({ ...usage, output: 1 }) }
  const pieces = [
    event({
      type: "message_start",
      message: { ...message, content: [], stop_reason: null, stop_sequence: null, ...start },
    }) + event({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }),
    ...words.map((text) => wordEvent("messages", text)),
    event({ type: "content_block_stop", index: 0 }),
  ]
  if (searches) {
    pieces.push(
      event({ type: "content_block_start", index: 1, content_block: { ...search, input: {} } }) +
        event({
          type: "content_block_delta",
          index: 1,
          delta: { type: "input_json_delta", partial_json: JSON.stringify(search.input) },
        }) +
        event({ type: "content_block_stop", index: 1 }),
    )
  }
  pieces.push(
    event({
      type: "message_delta",
      delta: { stop_reason: searches ? "tool_use" : "end_turn", stop_sequence: null },
      ...(usage && { usage: { output_tokens: usage.output, ...ranBy(ran) } }),
    }) + event({ type: "message_stop" }),
  )
  return pieces
}

const response = { id: "resp_1", object: "response", created_at: 1, model: "backend", error: null, output: [] }
const item = { type: "message", id: "msg_1", role: "assistant" }
const at = { item_id: item.id, output_index: 0, content_index: 0 }
const part = (said: string) => ({ type: "output_text", text: said, annotations: [] })

function responseOf({ words, usage }: Answer, status: string): JsonObject {
  const content = [{ type: "output_text", text: words.join(""), annotations: [] }]
  const counts = usage && {
    input_tokens: usage.input,
    output_tokens: usage.output,
    total_tokens: total(usage),
  }
  return { ...response, status, output: [{ ...item, status: "completed", content }], ...(counts && { usage: counts }) }
}

function responsesStream(answer: Answer): string[] {
  const text = answer.words.join("")
  return [
    event({ type: "response.created", response: { ...response, status: "in_progress" } }),
    event({
      type: "response.output_item.added",
      output_index: 0,
      item: { ...item, status: "in_progress", content: [] },
    }) + event({ type: "response.content_part.added", ...at, part: part("") }),
    ...answer.words.map((delta) => wordEvent("responses", delta)),
    event({ type: "response.output_text.done", ...at, text }) +
      event({ type: "response.content_part.done", ...at, part: part(text) }) +
      event({
        type: "response.output_item.done",
        output_index: 0,
        item: { ...item, status: "completed", content: [part(text)] },
      }),
    event({ type: "response.completed", response: responseOf(answer, "completed") }),
  ]
}
