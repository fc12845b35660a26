/** Pages of lists: a limit, and an opaque cursor of what the page before ended with. */
import { Type } from "@sinclair/typebox"
import type { Failure } from "../../failure/failure.ts"
import { refused } from "../route.ts"
import { field } from "../shapes.ts"

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

/** What an operator gives as a reason, for whoever reads the log later. */
export const Reason = Type.RegExp(/^(?=.*\S)[^\p{Cc}]{1,500}$/u, {
  description: field("a string of 1 to 500 characters on one line", "teks 1 sampai 500 karakter dalam satu baris"),
})
