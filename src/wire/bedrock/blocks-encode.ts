/**
 * Turns as Converse's messages: user and assistant by turns, the user first, none empty, no text blank, results of tools
 * before anything else that the user says. System text in mid-conversation is the user's, marked as what it is.
 */
import type { JsonObject } from "../../language/json.ts"
import type {
  AssistantPart,
  CacheMark,
  Prompt,
  TextPart,
  ThinkingPart,
  ToolCallPart,
  ToolResultPart,
  Turn,
  UserPart,
} from "../../language/prompt.ts"
import { Failure } from "../../failure/failure.ts"
import type { ToolNames } from "../chat/tool-names.ts"
import { toolInput } from "../messages/blocks-encode.ts"
import { DocumentNames, documentBlock, imageBlock } from "./media-encode.ts"
import { callId } from "./tools-encode.ts"
import type { ConverseTraits } from "./traits.ts"

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
    const input = toolInput(part)
    return { toolUse: { toolUseId: callId(part.id), name: this.#names.written(part.name), input } }
  }
}

const asNote = (part: TextPart): TextPart =>
  part.text.trim() === "" ? part : { ...part, text: `<system>\n${part.text}\n</system>` }

function thinkingBlocks({ text, seal }: ThinkingPart): JsonObject[] {
  if (seal?.by === "messages") return [{ reasoningContent: { reasoningText: { text, signature: seal.data } } }]
  return seal?.by === "messages-redacted" ? [{ reasoningContent: { redactedContent: seal.data } }] : []
}
