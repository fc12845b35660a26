/**
 * What a PDF comes to for a backend that reads its pages: how many there are, and how many bytes of text their drawing
 * instructions show. The file is a stranger's and may lie, so the most that any reading of it finds is taken: the tree of
 * pages as it is, the count that it claims, and the pages that lie about. Its time is bounded by whoever calls.
 */
import { inflateSync } from "node:zlib"
import { PDFArray, PDFDict, PDFDocument, PDFName, PDFNumber, PDFRawStream, PDFRef, PDFStream } from "@cantoo/pdf-lib"

export interface PdfMeasure {
  readonly pages: number
  /** Undefined where it cannot be known: encrypted, coded in another way than Deflate, or too much. */
  readonly textBytes: number | undefined
}

/** A tree that is larger has more pages than any backend reads, or none and goes in circles. */
const MAX_NODES = 20_000
/** Of drawing instructions, and of one stream of them: what shows more fills any window. */
const MAX_CONTENT_BYTES = 16 * 1024 * 1024
const MAX_DEPTH = 8

/** Undefined for what is no PDF, or too broken to be read. */
export async function measurePdf(bytes: Uint8Array): Promise<PdfMeasure | undefined> {
  try {
    const { context } = await PDFDocument.load(bytes, { ignoreEncryption: true, updateMetadata: false })
    const { Root: root, Encrypt: encrypted } = context.trailerInfo
    const { pages, claimed, endless } = walk(context, root)
    const loose = context.enumerateIndirectObjects().filter(([, object]) => isPage(object)).length
    const most = Math.max(pages.length, claimed, loose)
    if (most === 0) return undefined
    const textBytes = encrypted !== undefined || endless ? undefined : new Content(context).textBytes(pages)
    return { pages: most, textBytes }
  } catch {
    return undefined
  }
}

type Context = PDFDocument["context"]

const look = (context: Context, value: unknown): unknown => (value instanceof PDFRef ? context.lookup(value) : value)
const member = (context: Context, dict: PDFDict, name: string): unknown => look(context, dict.get(PDFName.of(name)))

const isPage = (object: unknown): boolean =>
  object instanceof PDFDict && object.get(PDFName.of("Type")) === PDFName.of("Page")

interface Page {
  readonly dict: PDFDict
  /** Its own, or what it has from the nodes above it. */
  readonly resources: unknown
}

/** A node whose kids are walked through. */
interface Level {
  readonly kids: PDFArray
  next: number
  readonly above: unknown
}

function walk(context: Context, root: unknown) {
  const pages: Page[] = []
  const catalog = look(context, root)
  const tree = catalog instanceof PDFDict ? member(context, catalog, "Pages") : undefined
  const count = tree instanceof PDFDict ? member(context, tree, "Count") : undefined
  const levels: Level[] = []
  let nodes = 0
  let next: Visit | undefined = { node: tree, above: undefined }
  for (; next !== undefined && nodes < MAX_NODES; next = nextOf(levels), nodes++) {
    const dict = look(context, next.node)
    if (!(dict instanceof PDFDict)) continue
    const resources = member(context, dict, "Resources") ?? next.above
    const kids = member(context, dict, "Kids")
    if (kids instanceof PDFArray) levels.push({ kids, next: 0, above: resources })
    else pages.push({ dict, resources })
  }
  const claimed = count instanceof PDFNumber ? Math.max(0, Math.floor(count.asNumber())) : 0
  return { pages, claimed, endless: nodes >= MAX_NODES }
}

interface Visit {
  readonly node: unknown
  readonly above: unknown
}

/** Where the walk is in each level is kept, and not all that waits: a node may name thousands, each of which is itself. */
function nextOf(levels: Level[]): Visit | undefined {
  for (let level = levels.at(-1); level !== undefined; level = levels.at(-1)) {
    if (level.next < level.kids.size()) return { node: level.kids.get(level.next++), above: level.above }
    levels.pop()
  }
  return undefined
}

interface Size {
  readonly content: number
  readonly text: number
}

/**
 * Forms count for each page that names them, and within each form that does, whether or not they are drawn; so do the looks
 * of notes.
 */
class Content {
  readonly #context: Context
  readonly #sizes = new Map<PDFStream, Size | undefined>()
  readonly #plain = new Map<PDFStream, boolean>()
  #text = 0
  #content = 0
  #looked = 0

  constructor(context: Context) {
    this.#context = context
  }

  textBytes(pages: readonly Page[]): number | undefined {
    for (const { dict, resources } of pages) {
      const contents = member(this.#context, dict, "Contents")
      const parts = contents instanceof PDFArray ? contents.asArray() : [contents]
      if (!parts.every((part) => this.#add(look(this.#context, part)))) return undefined
      if (!this.#addNamed(resources, 0) || !this.#addNotes(dict)) return undefined
    }
    return this.#text
  }

  /** False where it cannot be known. */
  #add(stream: unknown): boolean {
    if (!(stream instanceof PDFStream)) return true
    if (!this.#sizes.has(stream)) this.#sizes.set(stream, sizeOf(this.#context, stream))
    const size = this.#sizes.get(stream)
    if (size === undefined) return false
    this.#text += size.text
    this.#content += size.content
    return this.#content <= MAX_CONTENT_BYTES && ++this.#looked <= MAX_NODES
  }

  /** The forms among these resources, and what their fonts say that their letters mean. */
  #addNamed(resources: unknown, depth: number): boolean {
    const context = this.#context
    if (!(resources instanceof PDFDict)) return true
    const fonts = member(context, resources, "Font")
    const plain = valuesOf(context, fonts).every((font) => font instanceof PDFDict && this.#isPlain(font))
    return plain && valuesOf(context, member(context, resources, "XObject")).every((one) => this.#addForm(one, depth))
  }

  #addForm(object: unknown, depth: number): boolean {
    if (!(object instanceof PDFStream) || object.dict.get(PDFName.of("Subtype")) !== PDFName.of("Form")) return true
    if (depth >= MAX_DEPTH || !this.#add(object)) return false
    return this.#addNamed(member(this.#context, object.dict, "Resources"), depth + 1)
  }

  #addNotes(page: PDFDict): boolean {
    const notes = member(this.#context, page, "Annots")
    if (!(notes instanceof PDFArray)) return true
    return notes.asArray().every((value) => {
      const note = look(this.#context, value)
      const looks = note instanceof PDFDict ? member(this.#context, note, "AP") : undefined
      return valuesOf(this.#context, looks).every((one) =>
        one instanceof PDFDict
          ? valuesOf(this.#context, one).every((state) => this.#addForm(state, 0))
          : this.#addForm(one, 0),
      )
    })
  }

  /** A letter may be said to mean any number of letters. */
  #isPlain(font: PDFDict): boolean {
    const meanings = member(this.#context, font, "ToUnicode")
    if (!(meanings instanceof PDFStream)) return true
    if (!this.#plain.has(meanings)) {
      const bytes = decoded(this.#context, meanings)
      this.#plain.set(meanings, bytes !== undefined && longestShown(bytes) <= MAX_MEANING_BYTES)
    }
    return this.#plain.get(meanings) === true
  }
}

/** UTF-16; a ligature has three letters. */
const MAX_MEANING_BYTES = 16

const valuesOf = (context: Context, dict: unknown): unknown[] =>
  dict instanceof PDFDict ? dict.values().map((value) => look(context, value)) : []

function sizeOf(context: Context, stream: PDFStream): Size | undefined {
  const bytes = decoded(context, stream)
  return bytes && { content: bytes.length, text: shown(bytes).reduce((sum, length) => sum + length, 0) }
}

const longestShown = (bytes: Uint8Array): number => shown(bytes).reduce((most, length) => Math.max(most, length), 0)

function decoded(context: Context, stream: PDFStream): Uint8Array | undefined {
  if (!(stream instanceof PDFRawStream)) return undefined
  const filter = member(context, stream.dict, "Filter")
  const filters = filter instanceof PDFArray ? filter.asArray() : filter === undefined ? [] : [filter]
  if (filters.length > 1 || filters.some((name) => name !== PDFName.of("FlateDecode"))) return undefined
  if (filters.length === 0) return stream.contents
  try {
    return inflateSync(stream.contents, { maxOutputLength: MAX_CONTENT_BYTES, finishFlush: SYNC_FLUSH })
  } catch {
    return undefined
  }
}

/** What is cut off is read as far as it goes, as every reader does. */
const SYNC_FLUSH = 2

const [OPEN, CLOSE, ESCAPE, LESS, GREATER] = [40, 41, 92, 60, 62]

/** Lengths of the strings in drawing instructions: `(…)`, in which pairs of brackets nest, and `<…>` in hexadecimal. */
function shown(bytes: Uint8Array): number[] {
  const lengths: number[] = []
  for (let at = 0; at < bytes.length; at++) {
    if (bytes[at] === OPEN) {
      let length = 0
      for (let depth = 1; ++at < bytes.length;) {
        const byte = bytes[at]
        if (byte === OPEN) depth++
        if (byte === CLOSE && --depth === 0) break
        if (byte === ESCAPE) at++
        length++
      }
      lengths.push(length)
    } else if (bytes[at] === LESS && bytes[at + 1] === LESS) at++
    else if (bytes[at] === LESS) {
      const end = bytes.indexOf(GREATER, at)
      const stop = end < 0 ? bytes.length : end
      lengths.push(Math.ceil((stop - at - 1) / 2))
      at = stop
    }
  }
  return lengths
}
