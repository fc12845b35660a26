/**
 * What a backend's error says, wherever its vendor put it, and whether it says that the prompt was too long. No two vendors
 * agree on the shape, so the known places are read in order, and only those: the rest of a body may quote the customer's own
 * words, which must not be judged.
 */
import { isObject, type Json, type JsonObject } from "../language/json.ts"

export interface ErrorFacts {
  /** Codes and types in lower case, the most specific first. */
  readonly overflowCodes: readonly string[]
  readonly text: string
  /** The parameter that is at fault, where one is named. */
  readonly param: string
  /** The same, also where it stands before a colon or as a path of steps: `messages.0.content`. May be anything. */
  readonly field: string
}

/** Longer texts are not read: a wording stands in the first sentences, and a hostile text costs no time. */
const maxText = 4096

/**
 * Gathers names and words from the shapes in use: `{error:{…}}`, `{error:"…"}`, `{message,type,code}`, `{detail}` with a
 * text or a list, `[{error}]`, and another vendor's error as text within `error.metadata.raw`.
 */
export const readError = (body: Json | undefined): ErrorFacts => {
  const parsed = typeof body === "string" ? parsedOr(body) : body
  const outer = Array.isArray(parsed) ? parsed[0] : parsed
  if (!isObject(outer))
    return { overflowCodes: [], text: typeof outer === "string" ? outer.slice(0, maxText) : "", param: "", field: "" }
  const inner: JsonObject = isObject(outer.error) ? outer.error : {}
  const first = Array.isArray(outer.detail) ? outer.detail[0] : undefined
  const detail: JsonObject = isObject(first) ? first : {}
  const raw = isObject(inner.metadata) ? inner.metadata.raw : undefined
  const names = [inner.code, detail.type, inner.type, inner.status, outer.code, outer.type]
  const texts = [inner.message, outer.message, outer.Message, outer.error, outer.detail, detail.msg, raw]
  const param = [inner.param, outer.param].find((named) => typeof named === "string") ?? ""
  const [message] = [inner.message, outer.message].filter((text) => typeof text === "string")
  return {
    overflowCodes: names
      .filter((name) => typeof name === "string" || typeof name === "number")
      .map((name) => String(name).toLowerCase()),
    text: texts
      .filter((text) => typeof text === "string")
      .join("\n")
      .slice(0, maxText),
    param,
    field: param === "" ? stepsOf(detail.loc) || (/^[\w.[\]]{1,200}(?=: )/.exec(message ?? "")?.[0] ?? "") : param,
  }
}

/** Where servers on pydantic say it: `["body", "messages", 0, "content"]`. */
const stepsOf = (steps: Json | undefined): string =>
  Array.isArray(steps) && steps.length <= 20
    ? steps
        .map((step) => (typeof step === "object" ? "" : String(step)))
        .join(".")
        .replace(/^body\./, "")
    : ""

const parsedOr = (text: string): Json => {
  try {
    return JSON.parse(text) as Json
  } catch {
    return text
  }
}

const names = new Set([
  "context_length_exceeded",
  "context_window_exceeded",
  "model_context_window_exceeded",
  "exceed_context_size_error",
  "request_too_large",
  "prompt_too_long",
  "tokens_limit_reached",
  "1261",
])

const overflowPatterns: readonly RegExp[] = [
  /prompt(?: is)? too long/i, // Anthropic, Bedrock, Fireworks, Ollama
  /input is too long for (?:the )?requested model/i, // Bedrock
  /number of input tokens exceeds maximum length/i, // Bedrock, Nova
  /input length and `?max_tokens`? exceed context limit/i, // Anthropic
  /exceeds? (?:the |this |your )?(?:model's |available |maximum )*context (?:window|length|size|limit)/i, // OpenAI, llama.cpp, SGLang
  /(?:maximum|max) context length/i, // OpenAI, vLLM, DeepSeek, Mistral, OpenRouter
  /context length is only \d/i, // vLLM
  /input tokens exceed the configured limit/i, // OpenAI
  /longer than the (?:model's context length|maximum model length)/i, // Together, SGLang, vLLM
  /greater than the context length/i, // LM Studio
  /context length of only \d/i, // LM Studio
  /input token count.{0,40} exceeds the maximum/i, // Google
  /maximum prompt length is/i, // xAI
  /reduce the length of the (?:messages|prompt|input)/i, // Groq, Cerebras, OpenAI
  /token count of \d+ exceeds the limit/i, // GitHub Copilot
  /exceeds the maximum allowed input length/i, // Poolside
  /context window exceeds limit/i, // MiniMax
  /exceeded model token limit/i, // Moonshot
  /range of input length should be/i, // Qwen
  /prompt exceeds max/i, // Zhipu
  /tokens \+ `?max_new_tokens`? must be <=/i, // TGI
  /too many tokens: (?:total number of tokens in the prompt|size limit exceeded)/i, // Cohere
]

/** OpenAI's bound on one string counts for a message, but also for a cache key of 64 characters. */
const promptParam = /^(?:messages|input|instructions|system|prompt)(?:$|[.[])/

/**
 * Whether a backend's error says that the prompt is too long for the model, and by how much, in tokens. Each vendor
 * has wordings of its own and few have a code. Coding agents read the two numbers to compact their history, so they
 * are worth finding; only digits are taken from the backend's text (decisions §7).
 */
export const isContextOverflow = (facts: ErrorFacts): boolean =>
  facts.overflowCodes.some(
    (name) => names.has(name) || (name === "string_above_max_length" && promptParam.test(facts.param)),
  ) || overflowPatterns.some((wording) => wording.test(facts.text))

/** The message with the numbers in the one form that agents parse; undefined when the text does not have both. */
export const contextOverflowMessage = (text: string): string | undefined => {
  const numbers = sumOverLimit(text) ?? countOverLimit(text)
  return numbers === undefined ? undefined : promptTooLongMessage(numbers)
}

/** The one form of words, in tokens. */
export const promptTooLongMessage = ({ count, limit }: Numbers): string =>
  `prompt is too long: ${count} tokens > ${limit} maximum`

interface Numbers {
  readonly count: number
  readonly limit: number
}

/** Anthropic: `90402 + 116650 > 204648`. */
const sumOverLimit = (text: string): Numbers | undefined => {
  const [, prompt, answer, limit] = /(\d{1,9}) \+ (\d{1,9}) > (\d{1,9})\b/.exec(text) ?? []
  return plausibleNumbers(Number(prompt) + Number(answer), Number(limit))
}

/** A number that a word marks as the limit. `max_tokens` is no such word: it limits the answer. */
const limitPattern =
  /(?:<=|>=?) (\d[\d,]*)|\b(?:maximum|max|limit|allowed|context (?:length|window|size)|cannot exceed|max_(?:seq|model)_len)\b\D{0,40}?(\d[\d,]*)|(?<![\w,])(\d[\d,]*) maximum\b/i

/** A bound on bytes or characters says nothing about tokens. */
const otherUnits = /string too long|a string with maximum length|\bcharacters?\b|\bbytes?\b|\d ?[kmg]i?b\b/i

/** The largest number beyond the limit is the prompt's, or the total that was asked for. */
const countOverLimit = (text: string): Numbers | undefined => {
  if (otherUnits.test(text)) return undefined
  const match = limitPattern.exec(text)
  const limit = plain(match?.[1] ?? match?.[2] ?? match?.[3] ?? "")
  const counts = [...text.matchAll(/(?<![\w.,-])\d[\d,]*(?![\w-])/g)].map(([digits]) => plain(digits))
  return plausibleNumbers(Math.max(...counts.filter((count) => count < 1e9)), limit)
}

/** No digits are 0, which limits nothing. */
const plain = (digits: string): number => Number(digits.replaceAll(",", ""))

const plausibleNumbers = (count: number, limit: number): Numbers | undefined =>
  limit > 0 && count > limit ? { count, limit } : undefined
