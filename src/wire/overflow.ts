/**
 * Whether a backend's error says that the prompt is too long for the model, and by how much, in tokens. Each vendor has
 * wordings of its own and few have a code. Coding agents read the two numbers to compact their history, so they are
 * worth finding; only digits are taken from the backend's text (decisions §7).
 */
import type { ErrorFacts } from "./error-facts.ts"

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

const wordings: readonly RegExp[] = [
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

export const isOverflow = (facts: ErrorFacts): boolean =>
  facts.names.some(
    (name) => names.has(name) || (name === "string_above_max_length" && promptParam.test(facts.param)),
  ) || wordings.some((wording) => wording.test(facts.text))

/** The message with the numbers in the one form that agents parse; undefined when the text does not have both. */
export const overflowMessage = (text: string): string | undefined => {
  const numbers = sumOverLimit(text) ?? countOverLimit(text)
  return numbers === undefined ? undefined : tooLong(numbers)
}

/** The one form of words, in tokens. */
export const tooLong = ({ count, limit }: Numbers): string => `prompt is too long: ${count} tokens > ${limit} maximum`

interface Numbers {
  readonly count: number
  readonly limit: number
}

/** Anthropic: `90402 + 116650 > 204648`. */
const sumOverLimit = (text: string): Numbers | undefined => {
  const [, prompt, answer, limit] = /(\d{1,9}) \+ (\d{1,9}) > (\d{1,9})\b/.exec(text) ?? []
  return believable(Number(prompt) + Number(answer), Number(limit))
}

/** A number that a word marks as the limit. `max_tokens` is no such word: it limits the answer. */
const limitPattern =
  /(?:<=|>=?) (\d[\d,]*)|\b(?:maximum|max|limit|allowed|context (?:length|window|size)|cannot exceed|max_(?:seq|model)_len)\b\D{0,40}?(\d[\d,]*)|\b(\d[\d,]*) maximum\b/i

/** A bound on bytes or characters says nothing about tokens. */
const otherUnits = /string too long|a string with maximum length|\bcharacters?\b|\bbytes?\b|\d ?[kmg]i?b\b/i

/** The largest number beyond the limit is the prompt's, or the total that was asked for. */
const countOverLimit = (text: string): Numbers | undefined => {
  if (otherUnits.test(text)) return undefined
  const match = limitPattern.exec(text)
  const limit = plain(match?.[1] ?? match?.[2] ?? match?.[3] ?? "")
  const counts = [...text.matchAll(/(?<![\w.,-])\d[\d,]*(?![\w-])/g)].map(([digits]) => plain(digits))
  return believable(Math.max(...counts.filter((count) => count < 1e9)), limit)
}

const plain = (digits: string): number => (digits === "" ? Number.NaN : Number(digits.replaceAll(",", "")))

const believable = (count: number, limit: number): Numbers | undefined =>
  Number.isSafeInteger(count) && Number.isSafeInteger(limit) && limit > 0 && count > limit
    ? { count, limit }
    : undefined
