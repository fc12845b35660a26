/**
 * Lists in answers. First their pages: a limit, and an opaque cursor of what the page before ended with.
 *
 * Then rows of a CSV file (RFC 4180), as a spreadsheet opens it. One with Indonesian settings takes the comma for the decimal
 * sign, splits rows at `;`, reads `76.406` as 76406, and needs the mark of UTF-8: for it a file is asked for with `lang=id`.
 */
import { type Static, Type } from "@sinclair/typebox"
import { type Micro, microToRupiah } from "../../../actors/money/micro.ts"
import { Failure } from "../../failure/failure.ts"
import { turns } from "../../store/gate.ts"
import { refused } from "../route.ts"
import { field, oneOf } from "../shapes.ts"

const DEFAULT_LIMIT = 50
const LARGEST_LIMIT = 100

/** The parameters of a page. */
export const pageQuery = {
  cursor: Type.Optional(
    Type.String({ description: field("a `next_cursor`, as it was given", "`next_cursor`, seperti yang diberikan") }),
  ),
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: LARGEST_LIMIT,
      default: DEFAULT_LIMIT,
      description: field(`an integer from 1 to ${LARGEST_LIMIT}`, `bilangan bulat dari 1 sampai ${LARGEST_LIMIT}`),
    }),
  ),
}

export interface PageQuery {
  readonly cursor?: string
  readonly limit?: number
}

/** What a cursor holds: words without white space. */
export type Place = readonly string[]

export interface Page {
  readonly limit: number
  readonly after: Place | undefined
}

/** Each word of a cursor has to match its pattern. */
export function readPage({ cursor, limit = DEFAULT_LIMIT }: PageQuery, words: readonly RegExp[]): Page | Failure {
  if (cursor === undefined) return { limit, after: undefined }
  const after = Buffer.from(cursor, "base64url").toString("utf8").split(" ")
  const fits = after.length === words.length && words.every((word, index) => word.test(after[index] ?? ""))
  return fits ? { limit, after } : refused("cursor", pageQuery.cursor.description ?? "a cursor")
}

/**
 * The answer of a list that was asked for one row more than its limit: where there is one, there is a next page.
 * `placeOf` says where a row stands, in the words that `readPage` takes.
 */
export function pageJson<Row, Item>(
  rows: readonly Row[],
  { limit }: Page,
  { item, placeOf }: { readonly item: (row: Row) => Item; readonly placeOf: (row: Row) => Place },
): { readonly data: readonly Item[]; readonly next_cursor: string | null } {
  const shown = rows.slice(0, limit)
  const last = rows.length > limit ? shown.at(-1) : undefined
  return {
    data: shown.map(item),
    next_cursor: last === undefined ? null : Buffer.from(placeOf(last).join(" ")).toString("base64url"),
  }
}

/** What a `bigint` column holds. */
export const ID = /^\d{1,18}$/

/** What an operator gives as a reason, for whoever reads the log later. Kept as it is: a repeat is known by it, and half a character is not. */
export const Reason = Type.RegExp(/^(?=.*\S)[^\p{Cc}\p{Cs}]{1,500}$/u, {
  description: field("a string of 1 to 500 characters on one line", "teks 1 sampai 500 karakter dalam satu baris"),
})

const Notation = oneOf(["en", "id"])
export type CsvNotation = Static<typeof Notation>

/** What each file may be asked with. */
export const csvQuery = {
  lang: Type.Optional({
    ...Notation,
    description: field(
      "How numbers are written: `id` has `;` between cells, decimal commas and a byte order mark, as a spreadsheet with Indonesian settings reads a file; `en`, the default, is RFC 4180.",
      "Cara angka ditulis: `id` memakai `;` di antara sel, koma desimal, dan penanda UTF-8, seperti yang dibaca lembar kerja dengan setelan Indonesia; `en`, bawaannya, adalah RFC 4180.",
    ),
  }),
}

/** An amount in rupiah, written in the file's notation. */
export class Rupiah {
  readonly micro: Micro
  constructor(amount: Micro) {
    this.micro = amount
  }
}

export type Cell = string | number | bigint | Rupiah

export const csvLine = (cells: readonly Cell[], notation: CsvNotation = "en"): string =>
  `${cells.map((cell) => csvCell(cell, notation)).join(notation === "id" ? ";" : ",")}\r\n`

/** A cell that a spreadsheet takes for a formula begins with one of these, full-width ones too. */
const FORMULA = /^(?=[=+\-@\t\r\n＝＋－＠])/
/** So does what it takes for a cell, if it splits rows at another sign than the file's. */
const FORMULA_WITHIN = /([,;\t\r\n])(?=[=+\-@＝＋－＠])/g

/** Formulas get an apostrophe, so that no spreadsheet runs what somebody wrote; numbers stay numbers. */
function csvCell(value: Cell, notation: CsvNotation): string {
  if (value instanceof Rupiah) {
    const text = microToRupiah(value.micro)
    return notation === "id" ? text.replace(".", ",") : text
  }
  if (typeof value !== "string") return String(value)
  const safe = /^-?\d+(?:\.\d+)?$/.test(value) ? value : value.replace(FORMULA, "'").replaceAll(FORMULA_WITHIN, "$1'")
  return /[",;\t\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

interface CsvText {
  /** Without its ending. */
  readonly name: string
  /** The columns first. */
  readonly rows: readonly (readonly Cell[])[]
  readonly notation: CsvNotation | undefined
}

/** A file whose rows are all there. */
export const csvAnswer = ({ name, rows, notation }: CsvText): Response =>
  new Response(markOf(notation) + rows.map((cells) => csvLine(cells, notation)).join(""), headersOf(name))

/** How the name of a file ends that has a range: `-2026-11-01-to-2026-11-30`, in days of the zone, both included. */
export function inDays(range: { readonly from?: Date | undefined; readonly to?: Date | undefined }, timeZone: string) {
  const day = (ms: number) =>
    Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(timeZone).toPlainDate().toString()
  const [from, to] = [range.from && day(range.from.getTime()), range.to && day(range.to.getTime() - 1)]
  if (from === to) return from === undefined ? "" : `-${from}`
  if (to === undefined) return `-from-${from}`
  return from === undefined ? `-to-${to}` : `-${from}-to-${to}`
}

/** Without it, Excel takes a file for one of an 8-bit alphabet. */
const markOf = (notation: CsvNotation | undefined): string => (notation === "id" ? "\uFEFF" : "")

const headersOf = (name: string): ResponseInit => ({
  headers: {
    "content-type": "text/csv; charset=utf-8",
    "content-disposition": `attachment; filename="${name}.csv"`,
    "cache-control": "no-store",
  },
})

export interface CsvFile<Row> {
  /** Without its ending. */
  readonly name: string
  readonly columns: readonly string[]
  readonly notation: CsvNotation | undefined
  readonly cells: (row: Row) => readonly Cell[]
  /** The rows after one, or the first ones. */
  readonly read: (page: { readonly limit: number; readonly after: Row | undefined }) => Promise<readonly Row[]>
  /** Rows of one question; a thousand unless it is said. */
  readonly page?: number
  /** Where the file has more rows, its transfer breaks off. */
  readonly most?: number
  /** How long it may take whoever reads it to take its next part. */
  readonly stalledMs?: number | undefined
  /** Run once, when the file is over, however it ended. */
  readonly onEnd?: () => void
}

/** Of one account in one process. Each is open for as long as its reader takes. */
const MAX_FILES = 4

const tooMany = () =>
  new Failure("gateway.capacity", { message: "Too many questions of this account are being answered.", retryAfterS: 1 })

/**
 * Of one account in one process: a place of the database takes all others seconds to get where one account has many. Of those that wait
 * few are here, because an account's requests have a line of their own before (session.ts).
 */
const READS_AT_ONCE = 2

/** For questions that read any number of records. */
export const readsInTurn = () => turns({ atOnce: READS_AT_ONCE, most: Infinity, refused: tooMany })

/** Counts the files that are sent of each account: what is to be run at the end of another, or why there is none. */
export function filesAtOnce(): (accountId: string) => Failure | (() => void) {
  const files = new Map<string, number>()
  return (accountId) => {
    const underWay = files.get(accountId) ?? 0
    if (underWay === MAX_FILES) return tooMany()
    files.set(accountId, underWay + 1)
    return () => {
      const left = (files.get(accountId) ?? 1) - 1
      if (left === 0) files.delete(accountId)
      else files.set(accountId, left)
    }
  }
}

/** The first question of a file is a small one, so that its download begins at once also where rows are far from each other. */
const FIRST_PAGE = 100

/** Whoever takes nothing of a file for so long gets no more of it. */
const STALLED_MS = 60_000

/**
 * A file that is sent page by page as it is read, so that a year needs no more memory than an hour. Resolves when the first page is
 * read, so that a database that is away is still answered with a 503. One that goes away later breaks the transfer off, and so does
 * a file that is too long: half a file must not look like a whole one.
 */
export async function csvFile<Row>(file: CsvFile<Row>): Promise<Response> {
  const { name, columns, notation, cells, read, page: limit = 1_000, most } = file
  const { stalledMs = STALLED_MS, onEnd = () => {} } = file
  const encoder = new TextEncoder()
  const lines = (rows: readonly Row[]) => rows.map((row) => csvLine(cells(row), notation)).join("")
  let asked = Math.min(FIRST_PAGE, limit)
  let page: readonly Row[]
  try {
    page = await read({ limit: asked, after: undefined })
  } catch (error) {
    onEnd()
    throw error
  }
  let text = markOf(notation) + csvLine(columns, notation) + lines(page)
  let sent = page.length
  let stalled: ReturnType<typeof setTimeout> | undefined
  let isOver = false
  const over = () => {
    clearTimeout(stalled)
    if (!isOver) onEnd()
    isOver = true
  }
  const awaitReader = (controller: ReadableStreamDefaultController<Uint8Array>) => {
    stalled = setTimeout(() => {
      controller.error(new Error("nobody reads the file"))
      over()
    }, stalledMs)
    stalled.unref()
  }
  const body = new ReadableStream<Uint8Array>({
    start: awaitReader,
    async pull(controller) {
      clearTimeout(stalled)
      try {
        controller.enqueue(encoder.encode(text))
        const last = page.at(-1)
        const isLast = page.length < asked || last === undefined
        asked = limit
        page = isLast ? [] : await read({ limit, after: last })
        sent += page.length
        if (most !== undefined && sent > most) throw new Error(`the file has more than ${most} rows`)
        text = lines(page)
        if (page.length > 0) return isOver ? undefined : awaitReader(controller)
        controller.close()
        over()
      } catch (error) {
        over()
        throw error
      }
    },
    cancel: over,
  })
  return new Response(body, headersOf(name))
}

/** Values of JSON, by their names; what is more than a value stays JSON. */
export const jsonCells =
  (columns: readonly string[]) =>
  (json: Readonly<Record<string, unknown>>): readonly Cell[] =>
    columns.map((column) => {
      const value = json[column] ?? ""
      return typeof value === "string" || typeof value === "number" ? value : JSON.stringify(value)
    })

/** Of a file of the house's: what a spreadsheet opens at once. */
export const MAX_EXPORTED = 200_000
