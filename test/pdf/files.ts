/** PDFs, honest and not, written by hand: objects by number from 1 on, of which the first is the catalog. */
import { deflateSync } from "node:zlib"

export type PdfObject = string | Buffer

export function pdf(objects: readonly PdfObject[], trailer = ""): Buffer {
  const parts = [Buffer.from("%PDF-1.7\n")]
  const places: number[] = []
  const length = () => parts.reduce((sum, part) => sum + part.length, 0)
  for (const [index, object] of objects.entries()) {
    places.push(length())
    parts.push(Buffer.from(`${index + 1} 0 obj\n`), Buffer.from(object), Buffer.from("\nendobj\n"))
  }
  const table = places.map((place) => `${String(place).padStart(10, "0")} 00000 n \n`).join("")
  const start = length()
  parts.push(Buffer.from(`xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${table}`))
  parts.push(Buffer.from(`trailer\n<</Size ${objects.length + 1}/Root 1 0 R${trailer}>>\nstartxref\n${start}\n%%EOF\n`))
  return Buffer.concat(parts)
}

export const stream = (data: string | Buffer, dict = ""): Buffer =>
  Buffer.concat([
    Buffer.from(`<<${dict}/Length ${Buffer.byteLength(data)}>>stream\n`),
    Buffer.from(data),
    Buffer.from("\nendstream"),
  ])

export const deflated = (data: string | Buffer, dict = ""): Buffer =>
  stream(deflateSync(data), `/Filter/FlateDecode${dict}`)

const catalog = "<</Type/Catalog/Pages 2 0 R>>"

/** Pages with these words each, and a picture of so many bytes. */
export function pagesOf(words: readonly string[], pictureBytes = 0): Buffer {
  const objects: PdfObject[] = [catalog, ""]
  const kids = words.map((text) => {
    const picture = pictureBytes === 0 ? "" : `/XObject<</I ${objects.push(pictureOf(pictureBytes))} 0 R>>`
    const contents = objects.push(deflated(`BT /F1 12 Tf (${text}) Tj ET`))
    return objects.push(`<</Type/Page/Parent 2 0 R/Contents ${contents} 0 R/Resources<<${picture}>>>>`)
  })
  objects[1] = `<</Type/Pages/Count ${kids.length}/Kids[${kids.map((kid) => `${kid} 0 R`).join(" ")}]>>`
  return pdf(objects)
}

/** Without a zero, and so without anything that reads like an object. */
const pictureOf = (bytes: number): Buffer =>
  stream(Buffer.alloc(bytes, "\u00e9\u00ff\u0080", "latin1"), "/Type/XObject/Subtype/Image/Filter/DCTDecode")

/** One page of this description, and what else it refers to, from object 4 on. */
export const onePage = (page: string, ...others: readonly PdfObject[]): Buffer =>
  pdf([catalog, "<</Type/Pages/Count 1/Kids[3 0 R]>>", `<</Type/Page/Parent 2 0 R${page}>>`, ...others])

/** A tree of pages of this description, and what it refers to, from object 3 on. */
export const treeOf = (tree: string, ...others: readonly PdfObject[]): Buffer => pdf([catalog, tree, ...others])

/** What a naive count takes for one page. */
export const lying = (bytes: number): Buffer =>
  Buffer.concat([Buffer.from("%PDF-1.7\n/Type /Page\n"), Buffer.alloc(bytes, "A")])
