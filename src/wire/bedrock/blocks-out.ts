/**
 * Turns as Converse's messages: user and assistant by turns, the user first, none empty, no text blank, results of tools
 * before anything else that the user says. System text in mid-conversation is the user's, marked as what it is. Images and
 * documents are bytes of a few kinds, which Converse fetches from nowhere.
 */
import { ToolInputs } from "../body.ts"
import { asNote } from "../shared/betas.ts"
import { toolInput, type ToolNames } from "../shared/tools.ts"
import { Failure } from "../../failure/failure.ts"
import { type JsonObject, notServed } from "../../language/json.ts"
import {
  type AssistantPart,
  type CacheMark,
  type DocumentPart,
  type ImagePart,
  plainType,
  type Prompt,
  type TextPart,
  type ThinkingPart,
  type ToolCallPart,
  type ToolResultPart,
  type Turn,
  type UserPart,
} from "../../language/prompt.ts"
import type { ConverseTraits } from "./invoke.ts"

const LONGEST_ID = 64
const DIGEST_DIGITS = 16
/** Before a conversation that the assistant opened, beside a document without words, in a result without any. */
const NOTHING_SAID = "."
/** After a last turn of the assistant, which most models here do not go on with. */
const GOING_ON = "Continue."
const ERROR_MARK = "Error: "

interface Message {
  readonly role: "user" | "assistant"
  readonly content: JsonObject[]
}

export function blocksOf(prompt: Prompt, names: ToolNames, traits: ConverseTraits): JsonObject[] | Failure {
  const writer = new BlockWriter(names, traits)
  const messages: Message[] = []
  for (const turn of prompt.turns) {
    const content = writer.turn(turn)
    if (content instanceof Failure) return content
    const role = turn.role === "assistant" ? "assistant" : "user"
    const before = messages.at(-1)
    if (before?.role === role) before.content.push(...content)
    else if (content.length > 0) messages.push({ role, content })
  }
  if (messages[0]?.role !== "user") messages.unshift({ role: "user", content: [{ text: NOTHING_SAID }] })
  if (messages.at(-1)?.role === "assistant") messages.push({ role: "user", content: [{ text: GOING_ON }] })
  return messages.map(({ role, content }) => ({ role, content: role === "user" ? inOrder(content) : content }))
}

/** A document needs words beside it. */
function inOrder(content: readonly JsonObject[]): JsonObject[] {
  const results = content.filter(({ toolResult }) => toolResult !== undefined)
  const others = content.filter(({ toolResult }) => toolResult === undefined)
  const wordless =
    others.some(({ document }) => document !== undefined) && !others.some(({ text }) => text !== undefined)
  return [...results, ...others, ...(wordless ? [{ text: NOTHING_SAID }] : [])]
}

/** Text, without what says nothing. */
export const textBlocks = (parts: readonly TextPart[], traits: ConverseTraits): JsonObject[] =>
  parts.filter(({ text }) => text.trim() !== "").flatMap(({ text, cache }) => [{ text }, ...cachePoint(cache, traits)])

const cachePoint = (cache: CacheMark | undefined, { caches }: ConverseTraits): JsonObject[] =>
  cache === undefined || !caches ? [] : [{ cachePoint: { type: "default" } }]

class BlockWriter {
  readonly #names: ToolNames
  readonly #traits: ConverseTraits
  readonly #documents = new DocumentNames()
  readonly #inputs = new ToolInputs()

  constructor(names: ToolNames, traits: ConverseTraits) {
    this.#names = names
    this.#traits = traits
  }

  turn(turn: Turn): JsonObject[] | Failure {
    if (turn.role === "user") return this.#user(turn.parts)
    return turn.role === "assistant"
      ? turn.parts.flatMap((part) => this.#assistant(part))
      : textBlocks(turn.parts.map(asNote), this.#traits)
  }

  #user(parts: readonly UserPart[]): JsonObject[] | Failure {
    const blocks: JsonObject[] = []
    for (const part of parts) {
      const written = part.type === "tool-result" ? this.#result(part) : this.#shown(part)
      if (written instanceof Failure) return written
      blocks.push(...written)
    }
    return blocks
  }

  #shown(part: Exclude<UserPart, ToolResultPart>): JsonObject[] | Failure {
    if (part.type === "text") return textBlocks([part], this.#traits)
    const block = part.type === "image" ? imageBlock(part) : documentBlock(part, this.#documents)
    if (block instanceof Failure || block === undefined) return block ?? []
    return [block, ...cachePoint(part.cache, this.#traits)]
  }

  #result({ callId: id, parts, isError, cache }: ToolResultPart): JsonObject[] | Failure {
    const { resultStatus } = this.#traits
    const marked: readonly UserPart[] =
      isError && !resultStatus ? [{ type: "text", text: ERROR_MARK }, ...parts] : parts
    const written = this.#user(marked)
    if (written instanceof Failure) return written
    const content = written.filter((block) => block["cachePoint"] === undefined)
    if (content.length === 0) content.push({ text: NOTHING_SAID })
    const status = isError && resultStatus ? { status: "error" } : {}
    return [{ toolResult: { toolUseId: callId(id), content, ...status } }, ...cachePoint(cache, this.#traits)]
  }

  #assistant(part: AssistantPart): JsonObject[] {
    if (part.type === "thinking") return this.#traits.thinksOn ? thinkingBlocks(part) : []
    return part.type === "tool-call"
      ? [this.#call(part)]
      : textBlocks([{ type: "text", text: part.text }], this.#traits)
  }

  #call(part: ToolCallPart): JsonObject {
    const input = toolInput(part, this.#inputs)
    return { toolUse: { toolUseId: callId(part.id), name: this.#names.written(part.name), input } }
  }
}

function thinkingBlocks({ text, seal }: ThinkingPart): JsonObject[] {
  if (seal?.by === "messages") return [{ reasoningContent: { reasoningText: { text, signature: seal.data } } }]
  return seal?.by === "messages-redacted" ? [{ reasoningContent: { redactedContent: seal.data } }] : []
}

// Images and documents as Converse takes them: as bytes of a few kinds, which it fetches from nowhere. A document has a
// name that may hold only some characters, and that no other document of the request has.

const IMAGES: Readonly<Record<string, string>> = {
  "image/png": "png",
  "image/jpeg": "jpeg",
  "image/jpg": "jpeg",
  "image/gif": "gif",
  "image/webp": "webp",
}
const DOCUMENTS: Readonly<Record<string, string>> = {
  "application/pdf": "pdf",
  "text/csv": "csv",
  "text/html": "html",
  "text/markdown": "md",
  "application/msword": "doc",
  "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
  "application/vnd.ms-excel": "xls",
  "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
  "application/json": "txt",
}
const LONGEST_NAME = 200

function imageBlock({ source }: ImagePart): JsonObject | Failure {
  if (source.kind === "url") return byAddress
  const format = IMAGES[plainType(source.mediaType)]
  if (format === undefined)
    return notServed("An image of this media type is not served for this model; send PNG, JPEG, GIF or WebP.")
  return { image: { format, source: { bytes: source.base64 } } }
}

/** Undefined for a document with nothing in it, which would be refused. */
function documentBlock(part: DocumentPart, names: DocumentNames): JsonObject | undefined | Failure {
  const { source } = part
  if (source.kind === "url") return byAddress
  const type = source.kind === "text" ? "text/plain" : plainType(source.mediaType)
  const format = DOCUMENTS[type] ?? (type.startsWith("text/") ? "txt" : undefined)
  if (format === undefined)
    return notServed("A document of this media type is not served for this model; send a PDF, an office file or text.")
  const bytes = source.kind === "text" ? Buffer.from(source.text.trim()).toString("base64") : source.base64
  if (bytes === "") return undefined
  return { document: { format, name: names.next(part.name), source: { bytes } } }
}

const byAddress = notServed(
  "Images and documents by address are not served for this model; send the data itself in base64.",
)

/** The names of one request's documents. */
class DocumentNames {
  readonly #taken = new Set<string>()
  /** By how names begin: the number to try next. From 2 on, thousands of one name would be tried for seconds. */
  readonly #counts = new Map<string, number>()

  next(proposed: string | undefined): string {
    const allowed = (proposed ?? "")
      .replace(/[^a-zA-Z0-9\s()[\]-]/g, "-")
      .replace(/\s+/g, " ")
      .trim()
      .slice(0, LONGEST_NAME)
    const plain = allowed === "" ? "document" : allowed
    const start = plain.slice(0, LONGEST_NAME - 8)
    let name = plain
    let count = this.#counts.get(start) ?? 2
    for (; this.#taken.has(name); count++) name = `${start} (${count})`
    this.#counts.set(start, count)
    this.#taken.add(name)
    return name
  }
}

/** A call and its result are written alike, so they still belong together. */
function callId(id: string): string {
  const plain = id.replace(/[^\w-]/g, "_") || "_"
  if (plain === id && id.length <= LONGEST_ID) return id
  const digest = new Bun.CryptoHasher("sha256").update(id).digest("hex").slice(0, DIGEST_DIGITS)
  return `${plain.slice(0, LONGEST_ID - DIGEST_DIGITS - 1)}_${digest}`
}
