/**
 * The parts of a chat message's content, into the neutral language. Data URLs become data, other URLs stay URLs: the
 * gateway never fetches an address that a client names (decisions §7).
 */
import { isObject, type Json, type JsonObject, present } from "../../language/json.ts"
import type { CacheMark, DataSource, DocumentPart, ImagePart, RefusalPart, TextPart } from "../../language/prompt.ts"
import { misshapen, notServed, readParts, shown } from "../../language/shape.ts"
import { Failure } from "../../failure/failure.ts"

export type ContentPart = TextPart | ImagePart | DocumentPart

/** Content that may hold anything; texts that say nothing are left out. */
export const readContent = (content: Json | undefined, field: string): ContentPart[] | Failure =>
  readEach(content, field, readPart)

/** Content of roles that say nothing but text. */
export const readTexts = (content: Json | undefined, field: string): TextPart[] | Failure =>
  readEach(content, field, readText)

/** What an assistant said: text, and refusals among it. */
export const readSaid = (content: Json | undefined, field: string): (TextPart | RefusalPart)[] | Failure =>
  readEach(content, field, (part, where) =>
    part.type === "refusal" && typeof part.refusal === "string"
      ? ({ type: "refusal", text: part.refusal } as const)
      : readText(part, where),
  )

function readEach<Part extends ContentPart | RefusalPart>(
  content: Json | undefined,
  field: string,
  readOne: (part: JsonObject, field: string) => Part | Failure,
): Part[] | Failure {
  const texts = typeof content === "string" ? [{ type: "text", text: content }] : content
  const parts = readParts(texts, `${field}.content`)
  if (parts instanceof Failure) return parts
  const found: Part[] = []
  for (const [index, part] of parts.entries()) {
    const one = readOne(part, `${field}.content[${index}]`)
    if (one instanceof Failure) return one
    if (!("text" in one) || one.text !== "") found.push(one)
  }
  return found
}

function readPart(part: JsonObject, field: string): ContentPart | Failure {
  if (part.type === "image_url") return readImage(part, field)
  if (part.type === "file") return readDocument(part, field)
  return readText(part, field)
}

function readText(part: JsonObject, field: string): TextPart | Failure {
  const { type, text } = part
  if (type !== "text") return notServed(`'${field}' is of type ${shown(type)}, which is not served in this place.`)
  if (typeof text !== "string") return misshapen(`'${field}.text' is ${shown(text)}; it must be a string.`)
  return { type: "text", text, cache: cacheMark(part) }
}

/** Some clients write the address alone, without the object around it. */
function readImage(part: JsonObject, field: string): ImagePart | Failure {
  const image: JsonObject = isObject(part.image_url) ? part.image_url : { url: part.image_url }
  const { url, detail } = image
  if (typeof url !== "string")
    return misshapen(`'${field}.image_url.url' is ${shown(url)}; it must be a data: or http(s) URL.`)
  const source = /^https?:/i.test(url) ? ({ kind: "url", url } as const) : readDataUrl(url)
  if (source === undefined)
    return misshapen(`'${field}.image_url.url' is neither an http(s) URL nor a data: URL in base64.`)
  return { type: "image", source, detail: typeof detail === "string" ? detail : undefined, cache: cacheMark(part) }
}

function readDocument(part: JsonObject, field: string): DocumentPart | Failure {
  const file: JsonObject = isObject(part.file) ? part.file : {}
  const data = typeof file.file_data === "string" ? readDataUrl(file.file_data) : undefined
  if (data === undefined) return misshapen(`'${field}.file.file_data' must be a data: URL in base64.`)
  const name = typeof file.filename === "string" && file.filename !== "" ? file.filename : undefined
  const source = data.mediaType.startsWith("text/") ? ({ kind: "text", text: decodeText(data) } as const) : data
  return { type: "document", source, name, cache: cacheMark(part) }
}

const decodeText = ({ base64 }: DataSource): string => Buffer.from(base64, "base64").toString("utf8")

/** Longer heads than this are no media types; what follows may be megabytes. */
const LONGEST_HEAD = 256

function readDataUrl(url: string): DataSource | undefined {
  const head = /^data:([^;,]+)(?:;[^;,]+)*;base64,/i.exec(url.slice(0, LONGEST_HEAD))
  const mediaType = head?.[1]
  if (head === null || mediaType === undefined || url.length === head[0].length) return undefined
  return { kind: "data", mediaType: mediaType.toLowerCase(), base64: url.slice(head[0].length) }
}

/** Not of the format's own, but what clients of models with a marked cache write on it everywhere. */
export function cacheMark(part: JsonObject): CacheMark | undefined {
  const mark = part.cache_control
  if (!isObject(mark) || !present(mark.type)) return undefined
  return { ttl: typeof mark.ttl === "string" ? mark.ttl : undefined }
}
