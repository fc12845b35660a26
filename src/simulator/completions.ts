/**
 * Completions and embeddings, as the vendor's API reference has them. A completion's stream is chunks with `text`, the last with
 * its finish reason, the usage chunk when it was asked for, `[DONE]`; an answer is made for each prompt, `n` times.
 */
import { isObject, type JsonObject } from "../language/json.ts"
import { type Answer, whole } from "./answer.ts"
import { type Ask, numberOf, promptsOf, promptTokens, stringsOf } from "./ask.ts"
import { chat } from "./chat.ts"
import type { Frame, SimulatedFormat } from "./format.ts"
import { told, usageField } from "./usage.ts"

const silent = {
  tools: [],
  customTools: [],
  schema: undefined,
  toolResults: 0,
  allToolResults: 0,
} as const

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

const usageOf = ({ usage }: Answer): JsonObject => {
  const prompt = usage.input + usage.cached + usage.written
  return {
    prompt_tokens: told(prompt, usage.report),
    completion_tokens: told(usage.output, usage.report),
    total_tokens: told(prompt + usage.output, usage.report),
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

function* frames(answer: Answer, ask: Ask): Generator<Frame> {
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
    const usage = answer.usage.report === "null" ? null : usageOf(answer)
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
  stream: (answer, ask) => ({ ...chat.stream(answer, ask), frames: frames(answer, ask) }),
  reply: (answer, ask) => ({
    ...headOf(answer),
    choices: Array.from({ length: ask.choices }, (_, index) => ({
      text: `${ask.echoes?.[index % ask.echoes.length] ?? ""}${whole(answer.text)}`,
      index,
      logprobs: null,
      finish_reason: finishOf(answer),
    })),
    ...usageField(answer.usage.report, () => usageOf(answer)),
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
      const { prompt_tokens: prompt } = usageOf(answer)
      return { prompt_tokens: prompt ?? 0, total_tokens: prompt ?? 0 }
    }),
  }),
}
