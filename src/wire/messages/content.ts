/**
 * The messages and the system prompt of a messages request, and the cache marks in them. Blocks may sit inside of blocks (an
 * image in a tool's result), so every check of a block looks at the flat list of all of them that is handed back here.
 */
import {
  firstFailure,
  isObject,
  type Json,
  type JsonObject,
  type MessageShape,
  misshapen,
  present,
  readMessage,
  readObjects,
  readParts,
  shown,
} from "../../language/json.ts"
import type { CacheMark } from "../../language/prompt.ts"
import { Failure } from "../../failure/failure.ts"

/** `system` inside of `messages` came with version 2026-10-21. */
const MESSAGE: MessageShape = { roles: ["user", "assistant", "system"], texts: ["text"], called: "block" }

/** Checks every message, and hands back the blocks of all of them, nested ones too. */
export function readMessages(value: Json | undefined): JsonObject[] | Failure {
  const messages = readObjects(value, "messages")
  if (messages instanceof Failure) return messages
  if (messages.length === 0) return misshapen("'messages' is missing or empty; it must be an array of messages.")
  const all: JsonObject[] = []
  const failure = firstFailure(messages, (message, index) => {
    const blocks = readMessage(message, "messages", index, MESSAGE)
    if (blocks instanceof Failure) return blocks
    for (const block of blocks) addWithNested(all, block)
    return undefined
  })
  return failure ?? all
}

/** The results of tools and documents made of blocks carry blocks of their own. */
function addWithNested(all: JsonObject[], block: JsonObject): void {
  all.push(block)
  const { content, source } = block
  for (const inner of [content, isObject(source) ? source["content"] : undefined]) {
    if (Array.isArray(inner)) for (const nested of inner) if (isObject(nested)) addWithNested(all, nested)
  }
}

export function readSystem(value: Json | undefined): Failure | undefined {
  if (!present(value) || typeof value === "string") return undefined
  if (!Array.isArray(value))
    return misshapen(`'system' is ${shown(value)}; it must be a string or an array of text blocks.`)
  const blocks = readParts(value, "system")
  if (blocks instanceof Failure) return blocks
  return firstFailure(blocks, (block, index) =>
    block["type"] === "text" && typeof block["text"] === "string"
      ? undefined
      : misshapen(`'system[${index}]' is a block of type ${shown(block["type"])}; it must be a text block.`),
  )
}

/** The mark of a block, as the field that parts have it in; nothing where there is none. */
export function readCache({ cache_control: mark }: JsonObject): { readonly cache?: CacheMark } {
  if (!isObject(mark)) return {}
  return { cache: { ttl: typeof mark["ttl"] === "string" ? mark["ttl"] : undefined } }
}

export const cacheControl = (cache: CacheMark | undefined): JsonObject =>
  cache === undefined
    ? {}
    : { cache_control: { type: "ephemeral", ...(cache.ttl !== undefined && { ttl: cache.ttl }) } }
