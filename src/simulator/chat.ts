/**
 * Chat completions, completions and embeddings, as the vendor's API reference has them. A chat's stream is a role chunk, content
 * chunks, a chunk with the finish reason, the usage chunk when it was asked for (`usage` is null on all others), `[DONE]`.
 */
import { isObject, type Json, type JsonObject } from "../language/json.ts"
import { type Answer, type ToolCall, whole, reported, usageField } from "./answer.ts"
import {
  type Ask,
  blocksOf,
  countTokens,
  numberOf,
  objectOf,
  objects,
  promptsOf,
  promptTokens,
  readEnd,
  saidBlocks,
  stringsOf,
  textOf,
} from "./ask.ts"
import { type Frame, type SimulatedFormat, chatComplaints, openaiError, openaiStatus } from "./format.ts"

const readAsk = (body: JsonObject): Ask | string => {
  if (!Array.isArray(body["messages"]) || body["messages"].length === 0) return "'messages' must be a non-empty array."
  const options = body["stream_options"]
  const offered = body["tool_choice"] === "none" ? [] : objects(body["tools"])
  return {
    stream: body["stream"] === true,
    limit: numberOf(body["max_completion_tokens"]) ?? numberOf(body["max_tokens"]),
    choices: numberOf(body["n"]) ?? 1,
    includeUsage: isObject(options) && options["include_usage"] === true,
    promptTokens: countTokens(body["messages"], body["tools"]),
    tools: [...namesIn(offered, "function"), ...namesIn(offered, "custom")],
    customTools: namesIn(offered, "custom"),
    stops: stringsOf(body["stop"]),
    schema: objectOf(objectOf(objectOf(body["response_format"])?.["json_schema"])?.["schema"]),
    ...readEnd(objects(body["messages"]), (turn) => ({
      results: turn["role"] === "tool" ? 1 : 0,
      userText: turn["role"] === "user" ? textOf(turn["content"]) : "",
    })),
  }
}

const namesIn = (tools: readonly JsonObject[], kind: "function" | "custom"): string[] =>
  tools.flatMap((tool) => {
    const inner = tool[kind]
    return isObject(inner) && typeof inner["name"] === "string" ? [inner["name"]] : []
  })

const finishReason = (answer: Answer): string => {
  if (answer.cut) return "length"
  return answer.calls.length > 0 ? "tool_calls" : "stop"
}

const usageOf = ({ usage, searches }: Answer): JsonObject => {
  const prompt = usage.input + usage.cached + usage.written
  return {
    prompt_tokens: reported(prompt, usage.report),
    completion_tokens: reported(usage.output, usage.report),
    total_tokens: reported(prompt + usage.output, usage.report),
    prompt_tokens_details: {
      cached_tokens: usage.cached,
      ...(usage.written > 0 ? { cache_write_tokens: usage.written } : {}),
      audio_tokens: 0,
    },
    completion_tokens_details: {
      reasoning_tokens: usage.reasoning,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
    // As an aggregator of vendors has it.
    ...(searches > 0 ? { server_tool_use: { web_search_requests: reported(searches, usage.report) } } : {}),
  }
}

function* frames(answer: Answer, ask: Ask): Generator<Frame> {
  const head = JSON.stringify({
    id: `chatcmpl-${answer.serial}`,
    object: "chat.completion.chunk",
    created: answer.createdS,
    model: answer.model,
    service_tier: "default",
    system_fingerprint: "fp_simulator",
  }).slice(0, -1)
  const usageNull = ask.includeUsage ? `,"usage":null` : ""
  const chunk = (kind: Frame["kind"], delta: string, finish = "null"): Frame => {
    let bytes = ""
    for (let index = 0; index < ask.choices; index += 1) {
      const choice = `{"index":${index},"delta":${delta},"logprobs":null,"finish_reason":${finish}}`
      bytes += `data: ${head},"choices":[${choice}]${usageNull}}\n\n`
    }
    return { kind, bytes }
  }

  const content = answer.refused || (answer.calls.length > 0 && answer.text.count === 0) ? "null" : `""`
  yield chunk("preamble", `{"role":"assistant","content":${content},"refusal":null}`)
  for (let index = 0; index < answer.thinking.count; index += 1) {
    yield chunk("content", `{"reasoning_content":${JSON.stringify(answer.thinking.at(index))}}`)
  }
  for (let index = 0; index < answer.text.count; index += 1) {
    yield chunk("content", `{"${answer.refused ? "refusal" : "content"}":${JSON.stringify(answer.text.at(index))}}`)
  }
  for (const [index, call] of answer.calls.entries()) {
    const opening = { index, ...written(call, "", { name: call.name }) }
    yield chunk("preamble", JSON.stringify({ tool_calls: [opening] }))
    for (const piece of call.pieces) {
      const { id: _id, type: _type, ...delta } = written(call, piece, {})
      yield chunk("content", JSON.stringify({ tool_calls: [{ index, ...delta }] }))
    }
  }
  yield chunk("trailer", "{}", `"${finishReason(answer)}"`)
  if (ask.includeUsage && answer.usage.report !== "none") {
    const usage = answer.usage.report === "null" ? null : usageOf(answer)
    yield { kind: "trailer", bytes: `data: ${head},"choices":[],"usage":${JSON.stringify(usage)}}\n\n` }
  }
  yield { kind: "terminal", bytes: "data: [DONE]\n\n" }
}

/** A call, or a piece of one: what the tool is given is called otherwise where that is free text. */
const written = (call: ToolCall, given: string, named: { readonly name?: string }): JsonObject => ({
  id: `call_${call.serial}`,
  type: call.custom ? "custom" : "function",
  [call.custom ? "custom" : "function"]: { ...named, [call.custom ? "input" : "arguments"]: given },
})

const reply = (answer: Answer, ask: Ask): JsonObject => {
  const calls: Json[] = answer.calls.map((call) => written(call, call.pieces.join(""), { name: call.name }))
  const message: JsonObject = {
    role: "assistant",
    content: answer.refused || (answer.text.count === 0 && calls.length > 0) ? null : whole(answer.text),
    ...(answer.thinking.count > 0 ? { reasoning_content: whole(answer.thinking) } : {}),
    refusal: answer.refused ? whole(answer.text) : null,
    annotations: [],
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  }
  const finish_reason = finishReason(answer)
  return {
    id: `chatcmpl-${answer.serial}`,
    object: "chat.completion",
    created: answer.createdS,
    model: answer.model,
    choices: Array.from({ length: ask.choices }, (_, index) => ({ index, message, logprobs: null, finish_reason })),
    ...usageField(answer.usage.report, () => usageOf(answer)),
    service_tier: "default",
    system_fingerprint: "fp_simulator",
  }
}

export const chat: SimulatedFormat = {
  name: "chat",
  path: "/v1/chat/completions",
  headers: (serial) => ({
    "x-request-id": `req_${serial}`,
    "openai-organization": "simulated",
    "x-ratelimit-remaining-requests": "9999",
  }),
  readAsk,
  caching: "automatic",
  promptBlocks: ({ tools, messages }) => [...blocksOf(tools), ...saidBlocks(objects(messages))],
  stream: (answer, ask) => ({
    frames: frames(answer, ask),
    errorEvent: (error) => `data: ${JSON.stringify({ error: openaiError(error) })}\n\n`,
    garbage: () => `data: {"id":"chatcmpl-${answer.serial}","choices":[{"index":0,"del\n\n`,
  }),
  reply,
  complaints: chatComplaints,
  statusError: openaiStatus,
  errorBody: (error) => ({ error: openaiError(error) }),
}

const silent = { tools: [], customTools: [], schema: undefined, toolResults: 0, allToolResults: 0 } as const

const readCompletion = (body: JsonObject): Ask | string => {
  const prompts = promptsOf(body["prompt"])
  if (prompts.length === 0) return "you must provide a prompt"
  const options = body["stream_options"]
  const [first] = prompts
  return {
    ...silent,
    stream: body["stream"] === true,
    limit: numberOf(body["max_tokens"]) ?? 16,
    choices: prompts.length * Math.max(numberOf(body["n"]) ?? 1, numberOf(body["best_of"]) ?? 1),
    includeUsage: isObject(options) && options["include_usage"] === true,
    ...(body["echo"] === true && { echoes: prompts.map(String) }),
    lastUserText: typeof first === "string" ? first : "",
    promptTokens: promptTokens(prompts),
    stops: stringsOf(body["stop"]),
  }
}

const finishOf = (answer: Answer): string => (answer.cut ? "length" : "stop")

const completionUsage = ({ usage }: Answer): JsonObject => {
  const prompt = usage.input + usage.cached + usage.written
  return {
    prompt_tokens: reported(prompt, usage.report),
    completion_tokens: reported(usage.output, usage.report),
    total_tokens: reported(prompt + usage.output, usage.report),
    prompt_tokens_details: {
      cached_tokens: usage.cached,
      ...(usage.written > 0 && { cache_write_tokens: usage.written }),
    },
  }
}

const headOf = (answer: Answer): JsonObject => ({
  id: `cmpl-${answer.serial}`,
  object: "text_completion",
  created: answer.createdS,
  model: answer.model,
})

/** Chunks with `text`, the last with its finish reason. An answer is made for each prompt, `n` times. */
function* completionFrames(answer: Answer, ask: Ask): Generator<Frame> {
  const chunk = (kind: Frame["kind"], text: string, finish: string | null): Frame => {
    const chunks = Array.from({ length: ask.choices }, (_, index) => ({
      ...headOf(answer),
      choices: [{ text, index, logprobs: null, finish_reason: finish }],
      ...(ask.includeUsage && { usage: null }),
    }))
    return { kind, bytes: chunks.map((one) => `data: ${JSON.stringify(one)}\n\n`).join("") }
  }
  for (let index = 0; index < answer.text.count; index += 1) yield chunk("content", answer.text.at(index), null)
  yield chunk("trailer", "", finishOf(answer))
  if (ask.includeUsage && answer.usage.report !== "none") {
    const usage = answer.usage.report === "null" ? null : completionUsage(answer)
    yield { kind: "trailer", bytes: `data: ${JSON.stringify({ ...headOf(answer), choices: [], usage })}\n\n` }
  }
  yield { kind: "terminal", bytes: "data: [DONE]\n\n" }
}

export const completions: SimulatedFormat = {
  ...chat,
  name: "completions",
  path: "/v1/completions",
  readAsk: readCompletion,
  promptBlocks: () => [],
  stream: (answer, ask) => ({ ...chat.stream(answer, ask), frames: completionFrames(answer, ask) }),
  reply: (answer, ask) => ({
    ...headOf(answer),
    choices: Array.from({ length: ask.choices }, (_, index) => ({
      text: `${ask.echoes?.[index % ask.echoes.length] ?? ""}${whole(answer.text)}`,
      index,
      logprobs: null,
      finish_reason: finishOf(answer),
    })),
    ...usageField(answer.usage.report, () => completionUsage(answer)),
  }),
}

const readEmbedding = (body: JsonObject): Ask | string => {
  const texts = promptsOf(body["input"])
  if (texts.length === 0) return "'input' is a required property"
  return {
    ...silent,
    stream: false,
    limit: 0,
    choices: 1,
    includeUsage: false,
    lastUserText: "",
    promptTokens: promptTokens(texts),
    stops: [],
    vectors: {
      count: texts.length,
      dimensions: numberOf(body["dimensions"]) ?? 8,
      isBase64: body["encoding_format"] === "base64",
    },
  }
}

/** Of length one, and each another. */
const vector = (index: number, dimensions: number, isBase64: boolean) => {
  const numbers = Float32Array.from({ length: dimensions }, (_, at) => (at === index % dimensions ? 1 : 0))
  return isBase64 ? Buffer.from(numbers.buffer).toString("base64") : Array.from(numbers)
}

export const embeddings: SimulatedFormat = {
  ...chat,
  name: "embeddings",
  path: "/v1/embeddings",
  readAsk: readEmbedding,
  promptBlocks: () => [],
  reply: (answer, { vectors = { count: 0, dimensions: 0, isBase64: false } }) => ({
    object: "list",
    data: Array.from({ length: vectors.count }, (_, index) => ({
      object: "embedding",
      index,
      embedding: vector(index, vectors.dimensions, vectors.isBase64),
    })),
    model: answer.model,
    ...usageField(answer.usage.report, () => {
      const { prompt_tokens: prompt } = completionUsage(answer)
      return { prompt_tokens: prompt ?? 0, total_tokens: prompt ?? 0 }
    }),
  }),
}
