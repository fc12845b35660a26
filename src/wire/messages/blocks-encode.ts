/**
 * Parts of the neutral language as content blocks. Text that says nothing is left out, because backends of this format
 * refuse it; so is thinking that another kind of backend sealed, which this one could not read.
 */
import { isObject, type JsonObject } from "../../language/json.ts"
import type {
  AssistantPart,
  CacheMark,
  DocumentPart,
  ImagePart,
  TextPart,
  ThinkingPart,
  ToolCallPart,
  ToolResultPart,
  UserPart,
} from "../../language/prompt.ts"
import { notServed } from "../../language/shape.ts"
import { Failure } from "../../failure/failure.ts"
import { writtenId, writtenName } from "./tool-names.ts"

export function textBlocks(parts: readonly TextPart[]): JsonObject[] {
  return parts.filter(({ text }) => text.trim() !== "").map(textBlock)
}

const textBlock = ({ text, cache }: TextPart): JsonObject => ({ type: "text", text, ...cacheControl(cache) })

export const cacheControl = (cache: CacheMark | undefined): JsonObject =>
  cache === undefined
    ? {}
    : { cache_control: { type: "ephemeral", ...(cache.ttl !== undefined && { ttl: cache.ttl }) } }

export function userBlocks(parts: readonly UserPart[]): JsonObject[] | Failure {
  const blocks: JsonObject[] = []
  for (const part of parts) {
    const encoded = part.type === "tool-result" ? resultBlock(part) : shownBlock(part)
    if (encoded instanceof Failure) return encoded
    blocks.push(...encoded)
  }
  return blocks
}

function shownBlock(part: TextPart | ImagePart | DocumentPart): JsonObject[] | Failure {
  if (part.type === "text") return textBlocks([part])
  if (part.type === "document") return documentBlock(part)
  return [{ type: "image", source: imageSource(part.source), ...cacheControl(part.cache) }]
}

const imageSource = (source: ImagePart["source"]): JsonObject =>
  source.kind === "url"
    ? { type: "url", url: source.url }
    : { type: "base64", media_type: source.mediaType, data: source.base64 }

function documentBlock({ source, name, cache }: DocumentPart): JsonObject[] | Failure {
  const encoded = documentSource(source)
  if (encoded instanceof Failure) return encoded
  if (encoded["data"] === "") return []
  return [{ type: "document", source: encoded, ...(name !== undefined && { title: name }), ...cacheControl(cache) }]
}

function documentSource(source: DocumentPart["source"]): JsonObject | Failure {
  if (source.kind === "url") return { type: "url", url: source.url }
  if (source.kind === "text") return plainText(source.text)
  const mediaType = source.mediaType.toLowerCase().split(";")[0]?.trim() ?? ""
  if (mediaType === "application/pdf") return { type: "base64", media_type: mediaType, data: source.base64 }
  if (mediaType.startsWith("text/") || mediaType === "application/json")
    return plainText(Buffer.from(source.base64, "base64").toString("utf8"))
  return notServed("A document of this media type is not served for this model; send a PDF or text.")
}

const plainText = (text: string): JsonObject => ({
  type: "text",
  media_type: "text/plain",
  data: text.trim() === "" ? "" : text,
})

function resultBlock({ callId, parts, isError, cache }: ToolResultPart): JsonObject[] | Failure {
  const content = userBlocks(parts)
  if (content instanceof Failure) return content
  return [
    {
      type: "tool_result",
      tool_use_id: writtenId(callId),
      ...(content.length > 0 && { content }),
      ...(isError && { is_error: true }),
      ...cacheControl(cache),
    },
  ]
}

export const assistantBlocks = (parts: readonly AssistantPart[]): JsonObject[] =>
  parts.flatMap((part) => {
    if (part.type === "thinking") return thinkingBlocks(part)
    if (part.type === "tool-call")
      return [{ type: "tool_use", id: writtenId(part.id), name: writtenName(part.name), input: toolInput(part) }]
    return textBlocks([{ ...part, type: "text" }])
  })

function thinkingBlocks({ text, seal }: ThinkingPart): JsonObject[] {
  if (seal?.by === "messages") return [{ type: "thinking", thinking: text, signature: seal.data }]
  return seal?.by === "messages-redacted" ? [{ type: "redacted_thinking", data: seal.data }] : []
}

/**
 * A call's input, which this format has as an object. Arguments that are none, such as those that an answer limit cut
 * off, are kept as they are under `raw`: a conversation must not end for good because one call in it went wrong.
 */
export function toolInput({ arguments: text, custom }: Pick<ToolCallPart, "arguments" | "custom">): JsonObject {
  if (custom) return { input: text }
  if (text.trim() === "") return {}
  try {
    const parsed: unknown = JSON.parse(text)
    return isObject(parsed) ? parsed : { raw: text }
  } catch {
    return { raw: text }
  }
}
