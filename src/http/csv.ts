/** Rows of a CSV file (RFC 4180), as a spreadsheet opens it. */

export const csvLine = (cells: readonly (string | number | bigint)[]): string => `${cells.map(csvCell).join(",")}\r\n`

/** A spreadsheet runs a cell that starts like a formula, in full-width signs too, so such cells get an apostrophe, unless they are a number. */
function csvCell(value: string | number | bigint): string {
  if (typeof value !== "string") return String(value)
  const safe = /^[=+\-@\t\r\n＝＋－＠]/.test(value) && !/^-?\d+(?:\.\d+)?$/.test(value) ? `'${value}` : value
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

type Cell = string | number | bigint

export interface CsvFile<Row> {
  /** Without its ending. */
  readonly name: string
  readonly columns: readonly string[]
  readonly cells: (row: Row) => readonly Cell[]
  /** The rows after one, or the first ones. */
  readonly read: (page: { readonly limit: number; readonly after: Row | undefined }) => Promise<readonly Row[]>
  /** Rows of one question; a thousand unless it is said. */
  readonly page?: number
  /** Where the file has more rows, its transfer breaks off. */
  readonly most?: number
}

/**
 * A file that is sent page by page as it is read, so that a year needs no more memory than an hour. Resolves when the first page is
 * read, so that a database that is away is still answered with a 503. One that goes away later breaks the transfer off, and so does
 * a file that is too long: half a file must not look like a whole one.
 */
export async function csvFile<Row>({ name, columns, cells, read, page: limit = 1_000, most }: CsvFile<Row>) {
  const encoder = new TextEncoder()
  const lines = (rows: readonly Row[]) => rows.map((row) => csvLine(cells(row))).join("")
  let page = await read({ limit, after: undefined })
  let text = csvLine(columns) + lines(page)
  let sent = page.length
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      controller.enqueue(encoder.encode(text))
      const last = page.at(-1)
      if (page.length < limit || last === undefined) return controller.close()
      page = await read({ limit, after: last })
      sent += page.length
      if (most !== undefined && sent > most) throw new Error(`the file has more than ${most} rows`)
      text = lines(page)
      if (page.length === 0) controller.close()
    },
  })
  return new Response(body, {
    headers: {
      "content-type": "text/csv; charset=utf-8",
      "content-disposition": `attachment; filename="${name}.csv"`,
      "cache-control": "no-store",
    },
  })
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
export const MOST_EXPORTED = 200_000
