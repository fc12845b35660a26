/**
 * The file of a month of archived records: CSV as PostgreSQL's `copy` writes it, compressed in blocks of some calls each, which is
 * one gzip file to any other program. A call's records are read without the rest of the file.
 */
import { closeSync, fsyncSync, openSync, writeSync } from "node:fs"
import type { Sql } from "./sql.ts"

/** Records that cannot be archived now, or an archive that cannot be read: in a sentence. */
export class NotArchived extends Error {
  override readonly name = "NotArchived"
}

const BLOCK_CALLS = 1_000
/** Rows that are read of the database at a time. */
const BATCH = 5_000
/** What all ids of a millisecond begin with: `firstRequestId`. */
const MILLISECOND_LENGTH = 13

/** Of a month's records, in micro-rupiah. */
export interface Sums {
  readonly records: number
  readonly charged: string
  readonly absorbed: string
}

export interface Block {
  readonly first: string
  readonly starts: number
  readonly size: number
}

/** All records of a millisecond's calls are in one block: in which order they are depends on the database's collation. */
export async function writeRecords(
  sql: Sql,
  table: string,
  path: string,
  written: (records: number) => void,
): Promise<readonly Block[]> {
  const columns = await sql.unsafe<{ name: string }[]>(
    `select attname::text as name from pg_attribute where attrelid = '${table}'::regclass and attnum > 0 and not attisdropped order by attnum`,
  )
  const names = columns.map(({ name }) => name)
  const blocks: Block[] = []
  const file = openSync(path, "w", 0o600)
  try {
    let ends = 0
    const add = (text: string): number => {
      const bytes = Bun.gzipSync(Buffer.from(text))
      for (let done = 0; done < bytes.length;) done += writeSync(file, bytes, done)
      ends += bytes.length
      return bytes.length
    }
    add(`${names.join(",")}\n`)
    let [lines, first, last, calls, records]: [string[], string, string, number, number] = [[], "", "", 0, 0]
    const flush = () => {
      const starts = ends
      if (lines.length > 0) blocks.push({ first, starts, size: add(`${lines.join("\n")}\n`) })
      ;[lines, first, calls] = [[], "", 0]
    }
    await sql.unsafe(`declare archived no scroll cursor for select array[${names.map((name) => `${name}::text`).join(", ")}] as cells
      from ${table} order by request_id, part`)
    for (;;) {
      const batch = await sql.unsafe<{ cells: (string | null)[] }[]>(`fetch ${BATCH} from archived`)
      if (batch.length === 0) break
      for (const { cells } of batch) {
        const id = cells[names.indexOf("request_id")] ?? ""
        if (calls >= BLOCK_CALLS && millisecondOf(id) !== millisecondOf(last)) flush()
        if (id !== last) calls += 1
        if (first === "") first = millisecondOf(id)
        last = id
        lines.push(cells.map(cellOf).join(","))
      }
      written((records += batch.length))
    }
    flush()
    await sql.unsafe("close archived")
    fsyncSync(file)
    return blocks
  } finally {
    closeSync(file)
  }
}

const millisecondOf = (id: string): string => id.slice(0, MILLISECOND_LENGTH)

/** Null is nothing at all, and an empty text is quoted. */
const cellOf = (value: string | null): string =>
  value === null ? "" : /^$|[",\r\n\\]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value

const CELL = /(?:"((?:[^"]|"")*)"|([^",\n]*))(,|\n)/gy

/** Rows of cells, of text that ends with a line's end. */
function rowsOf(text: string): (string | null)[][] {
  const rows: (string | null)[][] = []
  let row: (string | null)[] = []
  let read = 0
  for (const [whole, quoted, plain, end] of text.matchAll(CELL)) {
    row.push(quoted === undefined ? plain || null : quoted.replaceAll('""', '"'))
    read += whole.length
    if (end === ",") continue
    rows.push(row)
    row = []
  }
  if (read !== text.length) throw new NotArchived("it is no CSV")
  return rows
}

export type ArchivedRow = Readonly<Record<string, string | null>>

export async function blockRows(
  path: string,
  header: readonly string[],
  { starts, size }: Block,
): Promise<ArchivedRow[]> {
  const bytes = await Bun.file(path)
    .slice(starts, starts + size)
    .bytes()
  const rows = rowsOf(Buffer.from(Bun.gunzipSync(bytes)).toString())
  return rows.map((cells) => Object.fromEntries(header.map((name, n) => [name, cells[n] ?? null])))
}

export async function headerOf(path: string, bytes: number): Promise<readonly string[]> {
  const text = Buffer.from(Bun.gunzipSync(await Bun.file(path).slice(0, bytes).bytes())).toString()
  return text.trimEnd().split(",")
}

export async function readBack(path: string, blocks: readonly Block[]): Promise<Sums & { sha256: string }> {
  let [records, charged, absorbed] = [0, 0n, 0n]
  if (blocks[0] !== undefined) {
    const header = await headerOf(path, blocks[0].starts)
    for (const block of blocks) {
      for (const row of await blockRows(path, header, block)) {
        records += 1
        charged += BigInt(row["charge_micro"] ?? "0")
        absorbed += BigInt(row["absorbed_micro"] ?? "0")
      }
    }
  }
  return { records, charged: String(charged), absorbed: String(absorbed), sha256: await sha256Of(path) }
}

export async function sha256Of(path: string): Promise<string> {
  const hasher = new Bun.CryptoHasher("sha256")
  for await (const chunk of Bun.file(path).stream()) hasher.update(chunk)
  return hasher.digest("hex")
}
