/**
 * Responses, as the vendor's reference of streaming events has them: created, in_progress, each output item from added
 * through its parts and deltas to done, then completed or incomplete; `sequence_number` rises by one per event.
 */
import type { Json, JsonObject } from "../language/json.ts"
import { type Answer, type ToolCall, whole, reported } from "./answer.ts"
import { type Ask, blocksOf, countTokens, numberOf, objectOf, objects, readEnd, textOf } from "./ask.ts"
import {
  type AnswerStream,
  type Frame,
  type SimulatedFormat,
  type VendorError,
  openaiError,
  openaiStatus,
  responsesComplaints,
} from "./format.ts"

const readAsk = (body: JsonObject): Ask | string => {
  const { input } = body
  const turns = typeof input === "string" ? [{ role: "user", content: input }] : objects(input)
  if (turns.length === 0) return "Missing required parameter: 'input'."
  const tools = [...objects(body["tools"]), ...turns.flatMap(addedTools)]
  return {
    stream: body["stream"] === true,
    limit: numberOf(body["max_output_tokens"]),
    choices: 1,
    includeUsage: true,
    promptTokens: countTokens(body["instructions"], input, body["tools"]),
    tools: body["tool_choice"] === "none" ? [] : toolNames(tools, "function", "custom"),
    customTools: toolNames(tools, "custom"),
    stops: [],
    schema: objectOf(objectOf(objectOf(body["text"])?.["format"])?.["schema"]),
    repeated: {
      text: { format: { type: "text" }, ...objectOf(body["text"]) },
      metadata: objectOf(body["metadata"]) ?? {},
    },
    ...readEnd(turns, (turn) => ({
      results: turn["type"] === "function_call_output" || turn["type"] === "custom_tool_call_output" ? 1 : 0,
      userText: turn["role"] === "user" ? textOf(turn["content"]) : "",
    })),
  }
}

/** Tools may come in the midst of the input, too. */
const addedTools = (turn: JsonObject): JsonObject[] =>
  turn["type"] === "additional_tools" ? objects(turn["tools"]) : []

/** Functions and custom tools, and those that a `namespace` tool holds. Hosted tools are the vendor's own to call. */
const toolNames = (tools: readonly JsonObject[], ...types: readonly Json[]): string[] =>
  tools.flatMap((tool) => {
    if (tool["type"] === "namespace") return toolNames(objects(tool["tools"]), ...types)
    return types.includes(tool["type"] ?? null) && typeof tool["name"] === "string" ? [tool["name"]] : []
  })

const usageOf = ({ usage }: Answer): JsonObject => {
  const input = usage.input + usage.cached + usage.written
  return {
    input_tokens: reported(input, usage.report),
    input_tokens_details: {
      cached_tokens: usage.cached,
      ...(usage.written > 0 ? { cache_write_tokens: usage.written } : {}),
    },
    output_tokens: reported(usage.output, usage.report),
    output_tokens_details: { reasoning_tokens: usage.reasoning },
    total_tokens: reported(input + usage.output, usage.report),
  }
}

type Status = "in_progress" | "completed" | "incomplete" | "failed"

interface ResponseDetail {
  readonly ask?: Ask
  readonly error?: VendorError
}

const response = (answer: Answer, status: Status, output: Json[], { ask, error }: ResponseDetail = {}): JsonObject => {
  const over = status === "completed" || status === "incomplete"
  const isUnreported = answer.usage.report === "none" || answer.usage.report === "null"
  return {
    id: `resp_${answer.serial}`,
    object: "response",
    created_at: answer.createdS,
    status,
    background: false,
    error: error === undefined ? null : { code: error.code ?? "server_error", message: error.message },
    incomplete_details: status === "incomplete" ? { reason: "max_output_tokens" } : null,
    instructions: null,
    max_output_tokens: null,
    metadata: {},
    model: answer.model,
    output,
    parallel_tool_calls: true,
    previous_response_id: null,
    reasoning: { effort: null, summary: null },
    service_tier: "default",
    store: false,
    temperature: 1,
    text: { format: { type: "text" } },
    tool_choice: "auto",
    tools: [],
    top_p: 1,
    truncation: "disabled",
    ...(over && answer.usage.report === "none" ? {} : { usage: over && !isUnreported ? usageOf(answer) : null }),
    user: null,
    ...ask?.repeated,
  }
}

const endOf = (answer: Answer): "completed" | "incomplete" => (answer.cut ? "incomplete" : "completed")

const stream = (answer: Answer, ask: Ask): AnswerStream => {
  let sequence = 0
  const event = (type: string, fields: JsonObject): string => {
    const bytes = `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: sequence, ...fields })}\n\n`
    sequence += 1
    return bytes
  }
  const instead = (type: string, fields: JsonObject): string => {
    sequence -= 1
    return event(type, fields)
  }
  const frame = (kind: Frame["kind"], type: string, fields: JsonObject): Frame => ({ kind, bytes: event(type, fields) })

  function* search(output_index: number): Generator<Frame, Json> {
    const item = searchItem(answer, output_index, "in_progress")
    const place = { item_id: item.id, output_index }
    yield frame("preamble", "response.output_item.added", { output_index, item })
    yield frame("preamble", "response.web_search_call.in_progress", place)
    yield frame("preamble", "response.web_search_call.searching", place)
    yield frame("preamble", "response.web_search_call.completed", place)
    const done = searchItem(answer, output_index, "completed")
    yield frame("preamble", "response.output_item.done", { output_index, item: done })
    return done
  }

  function* reasoning(output_index: number): Generator<Frame, Json> {
    const empty = reasoningItem(answer, "")
    const place = { item_id: empty.id, output_index, summary_index: 0 }
    yield frame("preamble", "response.output_item.added", { output_index, item: empty })
    yield frame("preamble", "response.reasoning_summary_part.added", {
      ...place,
      part: { type: "summary_text", text: "" },
    })
    for (let index = 0; index < answer.thinking.count; index += 1) {
      yield frame("content", "response.reasoning_summary_text.delta", { ...place, delta: answer.thinking.at(index) })
    }
    const text = whole(answer.thinking)
    const item = reasoningItem(answer, text)
    yield frame("trailer", "response.reasoning_summary_text.done", { ...place, text })
    yield frame("trailer", "response.reasoning_summary_part.done", { ...place, part: { type: "summary_text", text } })
    yield frame("trailer", "response.output_item.done", { output_index, item })
    return item
  }

  function* text(output_index: number): Generator<Frame, Json> {
    const empty = messageItem(answer, [], "in_progress")
    const place = { item_id: empty.id, output_index, content_index: 0 }
    const [kind, field] = answer.refused ? (["refusal", "refusal"] as const) : (["output_text", "text"] as const)
    const logprobs = answer.refused ? {} : { logprobs: [] }
    yield frame("preamble", "response.output_item.added", { output_index, item: empty })
    yield frame("preamble", "response.content_part.added", { ...place, part: saidPart(answer, "") })
    for (let index = 0; index < answer.text.count; index += 1) {
      yield frame("content", `response.${kind}.delta`, { ...place, delta: answer.text.at(index), ...logprobs })
    }
    const said = whole(answer.text)
    const item = messageItem(answer, [saidPart(answer, said)], endOf(answer))
    yield frame("trailer", `response.${kind}.done`, { ...place, [field]: said, ...logprobs })
    yield frame("trailer", "response.content_part.done", { ...place, part: saidPart(answer, said) })
    yield frame("trailer", "response.output_item.done", { output_index, item })
    return item
  }

  function* call(call: Answer["calls"][number], output_index: number): Generator<Frame, Json> {
    const given = call.pieces.join("")
    const item = callItem(call, given, endOf(answer))
    const place = { item_id: item.id, output_index }
    const kind = call.custom ? "custom_tool_call_input" : "function_call_arguments"
    const done = call.custom ? { input: given } : { name: call.name, arguments: given }
    yield frame("preamble", "response.output_item.added", { output_index, item: callItem(call, "", "in_progress") })
    for (const delta of call.pieces) yield frame("content", `response.${kind}.delta`, { ...place, delta })
    yield frame("trailer", `response.${kind}.done`, { ...place, ...done })
    yield frame("trailer", "response.output_item.done", { output_index, item })
    return item
  }

  function* frames(): Generator<Frame> {
    yield frame("preamble", "response.created", { response: response(answer, "in_progress", [], { ask }) })
    yield frame("preamble", "response.in_progress", { response: response(answer, "in_progress", [], { ask }) })
    const output: Json[] = []
    while (output.length < answer.searches) output.push(yield* search(output.length))
    if (answer.thinking.count > 0) output.push(yield* reasoning(output.length))
    if (answer.text.count > 0) output.push(yield* text(output.length))
    for (const one of answer.calls) output.push(yield* call(one, output.length))
    yield frame("terminal", `response.${endOf(answer)}`, { response: response(answer, endOf(answer), output, { ask }) })
  }

  return {
    frames: frames(),
    errorEvent: (error) => instead("error", { error: openaiError(error) }),
    garbage: () => `event: response.output_text.delta\ndata: {"type":"response.output_text.delta","del\n\n`,
    failedEvent: (error) => instead("response.failed", { response: response(answer, "failed", [], { ask, error }) }),
  }
}

const reply = (answer: Answer, ask: Ask): JsonObject => {
  const output: Json[] = Array.from({ length: answer.searches }, (_, index) => searchItem(answer, index, "completed"))
  if (answer.thinking.count > 0) output.push(reasoningItem(answer, whole(answer.thinking)))
  if (answer.text.count > 0) output.push(messageItem(answer, [saidPart(answer, whole(answer.text))], endOf(answer)))
  for (const call of answer.calls) output.push(callItem(call, call.pieces.join(""), endOf(answer)))
  return response(answer, endOf(answer), output, { ask })
}

export const responses: SimulatedFormat = {
  name: "responses",
  path: "/v1/responses",
  headers: (serial) => ({
    "x-request-id": `req_${serial}`,
    "openai-organization": "simulated",
    "x-ratelimit-remaining-requests": "9999",
  }),
  readAsk,
  caching: "automatic",
  promptBlocks: ({ tools, instructions, input }) => blocksOf(tools, instructions, input),
  stream,
  reply,
  failedReply: (answer, error) => response(answer, "failed", [], { error }),
  complaints: responsesComplaints,
  statusError: openaiStatus,
  errorBody: (error) => ({ error: openaiError(error) }),
}

type ItemStatus = "in_progress" | "completed" | "incomplete"

/**
 * The items in the output of a response, whole or just begun: reasoning, the message, calls of tools. A stream shows
 * each twice, empty when it is added and full when it is done, so the two must come from one place.
 */
const reasoningItem = (answer: Answer, text: string) => ({
  id: `rs_${answer.serial}`,
  type: "reasoning",
  summary: text === "" ? [] : [{ type: "summary_text", text }],
  encrypted_content: btoa(`simulated reasoning ${answer.serial}`),
})

/** A search says what it looked for once it is over. */
const searchItem = (answer: Answer, index: number, status: ItemStatus) => ({
  id: `ws_${answer.serial}${index}`,
  type: "web_search_call",
  status,
  ...(status === "completed" ? { action: { type: "search", query: `search ${index}`, sources: [] } } : {}),
})

const messageItem = (answer: Answer, content: Json[], status: ItemStatus) => ({
  id: `msg_${answer.serial}`,
  type: "message",
  status,
  role: "assistant",
  content,
})

const saidPart = (answer: Answer, text: string) =>
  answer.refused ? { type: "refusal", refusal: text } : { type: "output_text", annotations: [], logprobs: [], text }

const callItem = (call: ToolCall, given: string, status: ItemStatus) => {
  const { serial, name } = call
  const item = { status, call_id: `call_${serial}`, name }
  return call.custom
    ? { id: `ctc_${serial}`, type: "custom_tool_call", ...item, input: given }
    : { id: `fc_${serial}`, type: "function_call", ...item, arguments: given }
}
