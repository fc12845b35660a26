/**
 * Reading what the three formats have in common in a request. Prompt tokens are counted as a quarter of the characters
 * in the prompt's strings, an image as a flat 1,000: honest enough to charge by, and cheap.
 *
 * Then caches of prompt prefixes, of each credential and model apart, as the vendors keep and count them. The openai formats cache
 * by themselves: what a prompt has in common with an earlier one, from 1,024 tokens in steps of 128. Messages caches where the
 * client marks it, and looks for what is known up to 20 blocks before a mark. Either forgets after five minutes without use.
 *
 * A prefix is known by the hash of its texts; the cache forgets the oldest beyond a number of them.
 */
import { isObject, type Json, type JsonObject } from "../language/json.ts"

/** What an answer depends on, read from the request. */
export interface Ask {
  readonly stream: boolean
  /** The most answer tokens that the client takes. */
  readonly limit: number | undefined
  /** Answers asked for: `n` on chat, else 1. */
  readonly choices: number
  /** Chat only: the usage chunk is wanted. */
  readonly includeUsage: boolean
  /** Completions only: what each answer begins with, which is its prompt. */
  readonly echoes?: readonly string[]
  /** Embeddings only. */
  readonly vectors?: { readonly count: number; readonly dimensions: number; readonly isBase64: boolean }
  readonly lastUserText: string
  readonly promptTokens: number
  /** Names that may be called; none where the request forbids calls. */
  readonly tools: readonly string[]
  /** Those of them that take free text and not JSON. */
  readonly customTools: readonly string[]
  /** Texts that end the answer where it comes to one of them. */
  readonly stops: readonly string[]
  /** What the answer must be JSON of. */
  readonly schema: JsonObject | undefined
  /** Responses only: what of the request its answer says again, which some clients read an answer by. */
  readonly repeated?: JsonObject
  /** Tool results since the user last said something. */
  readonly toolResults: number
  /** Tool results in the whole conversation: how far a script of steps has come, whatever the client says between them. */
  readonly allToolResults: number
}

const IMAGE_TOKENS = 1_000
const CHARACTERS_PER_TOKEN = 4

/** Whether a field's text is an image, or where one is. */
const isImage = (key: string): boolean => key === "data" || key === "url" || key === "image_url"

export const countTokens = (...prompt: readonly (Json | undefined)[]): number => {
  let characters = 0
  for (const part of prompt) characters += countCharacters(part, "")
  return Math.ceil(characters / CHARACTERS_PER_TOKEN)
}

const countCharacters = (value: Json | undefined, key: string): number => {
  if (typeof value === "string") return isImage(key) ? IMAGE_TOKENS * CHARACTERS_PER_TOKEN : value.length
  if (typeof value !== "object" || value === null) return 0
  let characters = 0
  if (Array.isArray(value)) for (const item of value) characters += countCharacters(item, key)
  else for (const name in value) characters += countCharacters(value[name], name)
  return characters
}

/** Prompts as a text, texts, token ids, or lists of those, one by one: a text, or how many ids. */
export const promptsOf = (value: Json | undefined): readonly (string | number)[] => {
  if (!Array.isArray(value)) return typeof value === "string" ? [value] : []
  if (value.every((item) => typeof item === "number")) return [value.length]
  return value.map((item) => (Array.isArray(item) ? item.length : typeof item === "string" ? item : ""))
}

export const promptTokens = (prompts: readonly (string | number)[]): number =>
  prompts.reduce<number>((sum, prompt) => sum + (typeof prompt === "number" ? prompt : countTokens(prompt)), 0)

/** The text of a message's content, in any format: a string, or parts of which some have `text`. */
export const textOf = (content: Json | undefined): string => {
  if (typeof content === "string") return content
  if (!Array.isArray(content)) return ""
  return content.map((part) => (isObject(part) && typeof part["text"] === "string" ? part["text"] : "")).join("")
}

/** The elements of an array that are objects; anything else counts as none. */
export const objects = (value: Json | undefined): JsonObject[] => (Array.isArray(value) ? value.filter(isObject) : [])

/** What is wanted, if it is an object. */
export const objectOf = (value: Json | undefined): JsonObject | undefined => (isObject(value) ? value : undefined)

/** A limit that the client set, if it is a number at all. */
export const numberOf = (value: Json | undefined): number | undefined => (typeof value === "number" ? value : undefined)

/** A string, or those in a list. */
export const stringsOf = (value: Json | undefined): string[] =>
  (Array.isArray(value) ? value : [value]).filter((each) => typeof each === "string")

/** A tool that the model must call, by its own choice or by the client's, as any of the formats asks for it. */
export interface DemandedTool {
  readonly name: string
  /** Of what it takes. */
  readonly schema: JsonObject
}

export const demandedTool = ({ tools, tool_choice: choice }: JsonObject): DemandedTool | undefined => {
  const { type, name, function: chosen } = objectOf(choice) ?? {}
  const isAny = choice === "required" || type === "any"
  const demanded = name ?? objectOf(chosen)?.["name"]
  if (!isAny && demanded === undefined) return undefined
  const offered = objects(tools).map((tool) => objectOf(tool["function"]) ?? tool)
  const tool = offered.find((one) => typeof one["name"] === "string" && (isAny || one["name"] === demanded))
  if (typeof tool?.["name"] !== "string") return undefined
  return { name: tool["name"], schema: objectOf(tool["parameters"] ?? tool["input_schema"]) ?? {} }
}

/** What the conversation's end says: the user's last words, and the tool results that came after them. */
export const readEnd = (
  turns: readonly JsonObject[],
  read: (turn: JsonObject) => { readonly results: number; readonly userText: string },
): Pick<Ask, "lastUserText" | "toolResults" | "allToolResults"> => {
  let lastUserText = ""
  let toolResults = 0
  let allToolResults = 0
  for (const turn of turns) {
    const { results, userText } = read(turn)
    allToolResults += results
    if (results === 0 && userText !== "") {
      lastUserText = userText
      toolResults = 0
    } else toolResults += results
  }
  return { lastUserText, toolResults, allToolResults }
}

/** A part of a prompt, in the order in which a backend reads it: tools, instructions, what was said. */
export interface PromptBlock {
  readonly text: string
  /** The client asks for the prompt to be cached up to here. */
  readonly isMarked: boolean
}

/** How a format's prompts are cached. */
export type Caching = "automatic" | "marked"

/** Tokens. */
export interface CacheUse {
  readonly cached: number
  readonly written: number
}

const MIN_TOKENS = 1_024
const STEP_TOKENS = 128
const LOOK_BACK = 20
const MAX_MARKS = 4
export const LIFE_MS = 300_000
const MAX_PREFIXES = 500_000

export class PrefixCaches {
  /** When each prefix is forgotten, that which was used longest ago first. */
  readonly #prefixes = new Map<bigint, number>()
  readonly #most: number

  constructor(most = MAX_PREFIXES) {
    this.#most = most
  }

  /** What of a prompt is cached and what is written to the cache, where it is from now on. */
  use(owner: string, blocks: readonly PromptBlock[], caching: Caching, nowMs: number): CacheUse {
    const begin = Bun.hash.xxHash3(owner)
    return caching === "automatic" ? this.#automatic(begin, blocks, nowMs) : this.#marked(begin, blocks, nowMs)
  }

  clear(): void {
    this.#prefixes.clear()
  }

  #automatic(begin: bigint, blocks: readonly PromptBlock[], nowMs: number): CacheUse {
    const text = blocks.map((block) => block.text).join("")
    const step = STEP_TOKENS * CHARACTERS_PER_TOKEN
    let prefix = begin
    let cached = 0
    let isKnown = true
    for (let end = step; end <= text.length; end += step) {
      prefix = Bun.hash.xxHash3(text.slice(end - step, end), prefix)
      isKnown &&= this.#has(prefix, nowMs)
      if (isKnown) cached += STEP_TOKENS
      if (text.length >= MIN_TOKENS * CHARACTERS_PER_TOKEN) this.#keep(prefix, nowMs)
    }
    return { cached: cached < MIN_TOKENS ? 0 : cached, written: 0 }
  }

  #marked(begin: bigint, blocks: readonly PromptBlock[], nowMs: number): CacheUse {
    let prefix = begin
    let characters = 0
    const ends = blocks.map(({ text }) => {
      prefix = Bun.hash.xxHash3(text, prefix)
      characters += text.length
      return { prefix, tokens: Math.floor(characters / CHARACTERS_PER_TOKEN) }
    })
    const marks = blocks.flatMap(({ isMarked }, place) => (isMarked ? [place] : [])).slice(-MAX_MARKS)
    const worth = (place: number) => (ends[place]?.tokens ?? 0) >= MIN_TOKENS
    const known = marks
      .flatMap((mark) => Array.from({ length: LOOK_BACK + 1 }, (_, back) => mark - back))
      .flatMap((place) => ends.slice(place < 0 ? ends.length : place, place + 1))
      .filter((end) => end.tokens >= MIN_TOKENS && this.#has(end.prefix, nowMs))
      .toSorted((one, other) => other.tokens - one.tokens)[0]
    if (known !== undefined) this.#keep(known.prefix, nowMs)
    for (const mark of marks) {
      const end = ends[mark]
      if (end !== undefined && worth(mark)) this.#keep(end.prefix, nowMs)
    }
    const cached = known?.tokens ?? 0
    const last = ends[marks.findLast(worth) ?? -1]
    return { cached, written: Math.max(0, (last?.tokens ?? 0) - cached) }
  }

  #has(prefix: bigint, nowMs: number): boolean {
    const until = this.#prefixes.get(prefix)
    return until !== undefined && nowMs < until
  }

  #keep(prefix: bigint, nowMs: number): void {
    this.#prefixes.delete(prefix)
    this.#prefixes.set(prefix, nowMs + LIFE_MS)
    if (this.#prefixes.size <= this.#most) return
    const [oldest] = this.#prefixes.keys()
    if (oldest !== undefined) this.#prefixes.delete(oldest)
  }
}

/** Tools, instructions and items as blocks; `marked` where each says for itself whether it is cached. */
export const blocksOf = (...parts: readonly (Json | undefined)[]): PromptBlock[] =>
  parts.flatMap((part) => {
    if (part === undefined || part === null) return []
    return (Array.isArray(part) ? part : [part]).map((one) => ({
      text: textsIn(one, ""),
      isMarked: isObject(one) && isObject(one["cache_control"]),
    }))
  })

/** The blocks of a conversation's messages, each behind the name of who said it. */
export const saidBlocks = (messages: readonly JsonObject[]): PromptBlock[] =>
  messages.flatMap(({ role, content }) =>
    blocksOf(content).map(({ text, isMarked }, place) => ({
      text: place === 0 ? `${textsIn(role, "")}${text}` : text,
      isMarked,
    })),
  )

/** The texts alone, for the same text may come as a string or as a part; an image stands for as much as it counts. */
const textsIn = (value: Json | undefined, key: string): string => {
  if (typeof value === "string") {
    if (!isImage(key)) return value
    return Bun.hash
      .xxHash3(value)
      .toString(36)
      .padEnd(IMAGE_TOKENS * CHARACTERS_PER_TOKEN)
  }
  if (typeof value !== "object" || value === null) return ""
  if (Array.isArray(value)) return value.map((item) => textsIn(item, key)).join("")
  return Object.entries(value)
    .map(([name, inner]) => (name === "type" || name === "cache_control" ? "" : textsIn(inner, name)))
    .join("")
}
