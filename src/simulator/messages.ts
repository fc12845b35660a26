/**
 * Messages, as the vendor's streaming guide has them: message_start with the prompt's counts, each block from its start
 * through its deltas to its stop, message_delta with the stop reason and the counts, message_stop. Every event carries
 * an `event:` line; a ping follows message_start.
 */
import { isObject, type Json, type JsonObject } from "../language/json.ts"
import { type Answer, type Deltas, whole, reported, usageField } from "./answer.ts"
import {
  type Ask,
  blocksOf,
  countTokens,
  numberOf,
  objectOf,
  objects,
  type PromptBlock,
  readEnd,
  saidBlocks,
  stringsOf,
  textOf,
} from "./ask.ts"
import { type Frame, type SimulatedFormat, type VendorError, anthropicStatus, messagesComplaints } from "./format.ts"

const readAsk = (body: JsonObject): Ask | string => {
  if (!Array.isArray(body["messages"]) || body["messages"].length === 0)
    return "messages: at least one message is required"
  const limit = numberOf(body["max_tokens"])
  if (limit === undefined) return "max_tokens: Field required"
  const choice = body["tool_choice"]
  const offered = isObject(choice) && choice["type"] === "none" ? [] : objects(body["tools"])
  return {
    stream: body["stream"] === true,
    limit,
    choices: 1,
    includeUsage: true,
    promptTokens: countTokens(body["system"], body["messages"], body["tools"]),
    tools: offered.flatMap((tool) => (typeof tool["name"] === "string" ? [tool["name"]] : [])),
    customTools: [],
    stops: stringsOf(body["stop_sequences"]),
    schema: objectOf(objectOf(objectOf(body["output_config"])?.["format"] ?? body["output_format"])?.["schema"]),
    ...readEnd(objects(body["messages"]), (turn) => ({
      results: objects(turn["content"]).filter((block) => block["type"] === "tool_result").length,
      userText: turn["role"] === "user" ? textOf(turn["content"]) : "",
    })),
  }
}

/** A mark on the request itself stands at the prompt's end. */
const promptBlocks = ({ tools, system, messages: said, cache_control }: JsonObject): PromptBlock[] => {
  const blocks = [...blocksOf(tools, system), ...saidBlocks(objects(said))]
  const last = blocks.pop()
  return last === undefined ? [] : [...blocks, { ...last, isMarked: last.isMarked || isObject(cache_control) }]
}

const stopReason = (answer: Answer): string => {
  if (answer.cut) return "max_tokens"
  if (answer.refused) return "refusal"
  if (answer.stoppedBy !== undefined) return "stop_sequence"
  return answer.calls.length > 0 ? "tool_use" : "end_turn"
}

/** `input_tokens` leaves out what a cache had a part in. */
const usageOf = ({ usage, searches }: Answer, output: number): JsonObject => ({
  input_tokens: reported(usage.input, usage.report),
  cache_creation_input_tokens: usage.written,
  cache_read_input_tokens: usage.cached,
  output_tokens: reported(output, usage.report),
  ...(searches > 0 ? { server_tool_use: { web_search_requests: reported(searches, usage.report) } } : {}),
})

/** A search, and what it found. */
const searchBlocks = (answer: Answer, index: number): JsonObject[] => {
  const id = `srvtoolu_${answer.serial}${index}`
  return [
    { type: "server_tool_use", id, name: "web_search", input: { query: `search ${index}` } },
    { type: "web_search_tool_result", tool_use_id: id, content: [] },
  ]
}

const message = (answer: Answer, content: Json[], output: number, ended: boolean): JsonObject => ({
  id: `msg_${answer.serial}`,
  type: "message",
  role: "assistant",
  model: answer.model,
  content,
  stop_reason: ended ? stopReason(answer) : null,
  stop_sequence: ended ? (answer.stoppedBy ?? null) : null,
  ...usageField(answer.usage.report, () => ({
    ...usageOf(answer, output),
    cache_creation: { ephemeral_5m_input_tokens: answer.usage.written, ephemeral_1h_input_tokens: 0 },
    service_tier: "standard",
  })),
})

/** Thinking is signed; a client sends the signature back unchanged. */
const signatureOf = (answer: Answer): string => btoa(`simulated signature ${answer.serial}`)

const frame = (kind: Frame["kind"], type: string, fields: JsonObject): Frame => ({
  kind,
  bytes: `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`,
})

function* frames(answer: Answer): Generator<Frame> {
  yield frame("preamble", "message_start", { message: message(answer, [], Math.min(1, answer.usage.output), false) })
  yield frame("preamble", "ping", {})
  let index = 0
  const delta = (type: string, key: string, text: string): Frame => ({
    kind: "content",
    bytes: `event: content_block_delta\ndata: {"type":"content_block_delta","index":${index},"delta":{"type":"${type}","${key}":${JSON.stringify(text)}}}\n\n`,
  })
  function* block(start: JsonObject, deltas: Deltas, type: string, key: string, signature?: string): Generator<Frame> {
    yield frame("preamble", "content_block_start", { index, content_block: start })
    for (let at = 0; at < deltas.count; at += 1) yield delta(type, key, deltas.at(at))
    if (signature !== undefined) yield { ...delta("signature_delta", "signature", signature), kind: "trailer" }
    yield frame("trailer", "content_block_stop", { index })
    index += 1
  }

  for (let search = 0; search < answer.searches; search += 1)
    for (const content_block of searchBlocks(answer, search)) {
      yield frame("preamble", "content_block_start", { index, content_block })
      yield frame("preamble", "content_block_stop", { index })
      index += 1
    }
  if (answer.thinking.count > 0) {
    const start = { type: "thinking", thinking: "", signature: "" }
    yield* block(start, answer.thinking, "thinking_delta", "thinking", signatureOf(answer))
  }
  if (answer.text.count > 0) yield* block({ type: "text", text: "" }, answer.text, "text_delta", "text")
  for (const call of answer.calls) {
    const start = { type: "tool_use", id: `toolu_${call.serial}`, name: call.name, input: {} }
    const pieces = { count: call.pieces.length, at: (at: number) => call.pieces[at] ?? "" }
    yield* block(start, pieces, "input_json_delta", "partial_json")
  }
  yield frame("trailer", "message_delta", {
    delta: { stop_reason: stopReason(answer), stop_sequence: answer.stoppedBy ?? null },
    ...usageField(answer.usage.report, () => usageOf(answer, answer.usage.output)),
  })
  yield frame("terminal", "message_stop", {})
}

const reply = (answer: Answer): JsonObject => {
  const content: Json[] = Array.from({ length: answer.searches }, (_, index) => searchBlocks(answer, index)).flat()
  if (answer.thinking.count > 0) {
    content.push({ type: "thinking", thinking: whole(answer.thinking), signature: signatureOf(answer) })
  }
  if (answer.text.count > 0) content.push({ type: "text", text: whole(answer.text) })
  for (const { serial, name, args } of answer.calls) {
    content.push({ type: "tool_use", id: `toolu_${serial}`, name, input: args })
  }
  return message(answer, content, answer.usage.output, true)
}

const errorBody = ({ type, message }: VendorError, serial: string): JsonObject => ({
  type: "error",
  error: { type, message },
  request_id: `req_${serial}`,
})

export const messages: SimulatedFormat = {
  name: "messages",
  path: "/v1/messages",
  headers: (serial) => ({
    "request-id": `req_${serial}`,
    "anthropic-organization-id": "simulated",
    "anthropic-ratelimit-requests-remaining": "9999",
  }),
  readAsk,
  caching: "marked",
  promptBlocks,
  stream: (answer) => ({
    frames: frames(answer),
    errorEvent: (error) => `event: error\ndata: ${JSON.stringify(errorBody(error, answer.serial))}\n\n`,
    garbage: () => `event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"del\n\n`,
  }),
  reply,
  complaints: messagesComplaints,
  statusError: anthropicStatus,
  errorBody,
}
