/**
 * Images and documents as Converse takes them: as bytes of a few kinds, which it fetches from nowhere. A document has a
 * name that may hold only some characters, and that no other document of the request has.
 */
import type { JsonObject } from "../../language/json.ts"
import type { DocumentPart, ImagePart } from "../../language/prompt.ts"
import { notServed } from "../../language/shape.ts"
import type { Failure } from "../../failure/failure.ts"

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

export function imageBlock({ source }: ImagePart): JsonObject | Failure {
  if (source.kind === "url") return byAddress
  const format = IMAGES[plainType(source.mediaType)]
  if (format === undefined)
    return notServed("An image of this media type is not served for this model; send PNG, JPEG, GIF or WebP.")
  return { image: { format, source: { bytes: source.base64 } } }
}

/** Undefined for a document with nothing in it, which would be refused. */
export function documentBlock(part: DocumentPart, names: DocumentNames): JsonObject | undefined | Failure {
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

const plainType = (mediaType: string): string => mediaType.toLowerCase().split(";")[0]?.trim() ?? ""

/** The names of one request's documents. */
export class DocumentNames {
  readonly #taken = new Set<string>()

  next(wanted: string | undefined): string {
    const allowed = (wanted ?? "")
      .replace(/[^a-zA-Z0-9\s()[\]-]/g, "-")
      .replace(/\s+/g, " ")
      .trim()
      .slice(0, LONGEST_NAME)
    const plain = allowed === "" ? "document" : allowed
    let name = plain
    for (let count = 2; this.#taken.has(name); count++) name = `${plain.slice(0, LONGEST_NAME - 8)} (${count})`
    this.#taken.add(name)
    return name
  }
}
