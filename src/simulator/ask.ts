/**
 * Reading what the three formats have in common in a request. Prompt tokens are counted as a quarter of the characters
 * in the prompt's strings, an image as a flat 1,000: honest enough to charge by, and cheap.
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
  /** Tool results since the user last said something. */
  readonly toolResults: number
  /** Tool results in the whole conversation: how far a script of steps has come, whatever the client says between them. */
  readonly allToolResults: number
}

export const IMAGE_TOKENS = 1_000
export const CHARACTERS_PER_TOKEN = 4

/** Whether a field's text is an image, or where one is. */
export const isImage = (key: string): boolean => key === "data" || key === "url" || key === "image_url"

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
