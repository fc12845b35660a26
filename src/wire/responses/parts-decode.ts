/** The parts of messages and of tools' outputs: text, images and files. A part of empty text is no part. */
import { type Json, type JsonObject, present } from "../../language/json.ts"
import type { AssistantPart, DocumentPart, ImagePart, TextPart } from "../../language/prompt.ts"
import { misshapen, notServed, readParts, shown } from "../../language/shape.ts"
import { Failure } from "../../failure/failure.ts"
import { readDataUrl } from "./data-url.ts"

export type InputPart = TextPart | ImagePart | DocumentPart

/** `text` is how compatible clients call either of the other two. */
const TEXTS: readonly unknown[] = ["input_text", "output_text", "text"]

export const inputParts = (content: Json | undefined, field: string): InputPart[] | Failure =>
  partsOf(content, field, inputPart)

export const assistantParts = (content: Json | undefined, field: string): AssistantPart[] | Failure =>
  partsOf<AssistantPart>(content, field, (part, field) =>
    part["type"] === "refusal" ? refusalPart(part, field) : textPart(part, field),
  )

export const textParts = (content: Json | undefined, field: string): TextPart[] | Failure =>
  partsOf<TextPart>(content, field, textPart)

type Read<T> = (part: JsonObject, field: string) => T | undefined | Failure

function partsOf<T>(content: Json | undefined, field: string, read: Read<T | TextPart>): (T | TextPart)[] | Failure {
  if (!present(content) || content === "") return []
  if (typeof content === "string") return [{ type: "text", text: content }]
  const list = readParts(content, field)
  if (list instanceof Failure) return list
  const parts: (T | TextPart)[] = []
  for (const [index, one] of list.entries()) {
    const part = read(one, `${field}[${index}]`)
    if (part instanceof Failure) return part
    if (part !== undefined) parts.push(part)
  }
  return parts
}

function inputPart(part: JsonObject, field: string): InputPart | undefined | Failure {
  if (part["type"] === "input_image") return imagePart(part, field)
  return part["type"] === "input_file" ? documentPart(part, field) : textPart(part, field)
}

function textPart(part: JsonObject, field: string): TextPart | undefined | Failure {
  const { type, text } = part
  if (!TEXTS.includes(type)) return notServed(`'${field}' is a part of type ${shown(type)}, which is not served here.`)
  if (typeof text !== "string") return misshapen(`'${field}.text' is ${shown(text)}; it must be a string.`)
  return text === "" ? undefined : { type: "text", text }
}

function refusalPart({ refusal }: JsonObject, field: string): AssistantPart | undefined | Failure {
  if (typeof refusal !== "string") return misshapen(`'${field}.refusal' is ${shown(refusal)}; it must be a string.`)
  return refusal === "" ? undefined : { type: "refusal", text: refusal }
}

function imagePart({ image_url: url, detail }: JsonObject, field: string): ImagePart | Failure {
  if (typeof url !== "string" || url === "")
    return misshapen(`'${field}.image_url' is ${shown(url)}; it must be a URL or a data URL.`)
  const data = readDataUrl(url)
  if (data === undefined && url.startsWith("data:"))
    return misshapen(`'${field}.image_url' must be a data URL with a media type and base64.`)
  return {
    type: "image",
    source: data ?? { kind: "url", url },
    detail: typeof detail === "string" ? detail : undefined,
  }
}

function documentPart(part: JsonObject, field: string): DocumentPart | Failure {
  const { file_data: data, file_url: url, filename } = part
  const name = typeof filename === "string" && filename !== "" ? filename : undefined
  if (typeof data === "string" && data !== "") {
    // Written without its `data:` head, a file is what it nearly always is.
    const source = readDataUrl(data) ?? ({ kind: "data", mediaType: "application/pdf", base64: data } as const)
    return { type: "document", source, name }
  }
  if (typeof url === "string" && url !== "") return { type: "document", source: { kind: "url", url }, name }
  return misshapen(`'${field}' has neither 'file_data' nor 'file_url'.`)
}
