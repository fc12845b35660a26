/** The types of postgres.js as the store uses them: the tagged template, and Postgres' arrays; and what statements share. */
import type postgres from "postgres"

/** A connection's tagged template. Postgres' `bigint` is a bigint here, because money is. */
export type Sql = postgres.Sql<{ bigint: bigint }>

/** Whether a time was written by a clock of the database that has been set back since. It may be null, and a minute ahead. */
export const isAhead = (sql: Sql, at: ReturnType<Sql>) => sql`coalesce(${at} > now() + interval '1 minute', false)`

// Postgres arrays for postgres.js. It can learn them from the server (`fetch_types`), but that query's rejection is
// nobody's when the connection dies under it, and an unhandled rejection ends the process. The built-in types' ids never
// change, so they are written down here instead. One dimension; `null` elements are allowed.

/** Element type → array type, by object id (`pg_type.dat`). */
const arrayTypes: Readonly<Record<number, number>> = {
  16: 1000, // boolean
  17: 1001, // bytea
  21: 1005, // smallint
  23: 1007, // integer
  25: 1009, // text
  20: 1016, // bigint
  701: 1022, // double precision
  1043: 1015, // varchar
  1184: 1185, // timestamptz
  1700: 1231, // numeric
  2950: 2951, // uuid
  3802: 3807, // jsonb
}

/**
 * Teaches one postgres.js instance the array types above: as `sql.array(xs)`, as `${xs}::text[]`, and in rows. Arrays of
 * bigints, booleans, dates and bytes are always given as `sql.array(xs)`: bare, postgres.js takes them for their first element.
 */
export function teachArrays(sql: Sql): void {
  // `shared` is how postgres.js itself keeps what `fetch_types` found; its types leave it out.
  const options = sql.options as Sql["options"] & { shared: { typeArrayMap: Record<number, number> } }
  for (const [element, array] of Object.entries(arrayTypes).map(([key, value]) => [Number(key), value] as const)) {
    const serialize = options.serializers[element] ?? String
    const parse = options.parsers[element] ?? ((text: string) => text)
    options.shared.typeArrayMap[element] = array
    options.serializers[array] = (values: unknown) => (Array.isArray(values) ? arrayLiteral(values, serialize) : values)
    options.parsers[array] = (literal: string) =>
      arrayElements(literal).map((text) => (text === null ? null : parse(text)))
  }
}

/** `{"a","b",NULL}`: every element is quoted, which Postgres accepts for every type. */
export function arrayLiteral<T>(values: readonly (T | null)[], serialize: (value: T) => unknown): string {
  const elements = values.map((value) =>
    value === null ? "NULL" : `"${escaped(String(serialize(value)), String.raw`\$&`)}"`,
  )
  return `{${elements.join(",")}}`
}

/** Hardly any text has a quote or a backslash, and to look for them costs less than to replace none. */
const escaped = (text: string, replacement: string): string =>
  text.includes('"') || text.includes("\\") ? text.replace(/["\\]/g, replacement) : text

/** The elements of a one-dimensional array literal, as text. An unquoted NULL is null; a quoted one is a string. */
export function arrayElements(literal: string): (string | null)[] {
  const elements: (string | null)[] = []
  for (const [, quoted, bare] of literal.slice(1, -1).matchAll(/"((?:[^"\\]|\\[^])*)"|([^,]+)/g)) {
    if (quoted !== undefined) elements.push(quoted.replace(/\\([^])/g, "$1"))
    else if (bare !== undefined) elements.push(bare === "NULL" ? null : bare)
  }
  return elements
}

/** `(a,"b c",,t)`: a row of a composite type. What is undefined is null. */
export function rowLiteral(values: readonly (string | number | bigint | boolean | undefined)[]): string {
  return `(${values.map(fieldLiteral).join(",")})`
}

function fieldLiteral(value: string | number | bigint | boolean | undefined): string {
  if (value === undefined) return ""
  if (typeof value !== "string") return String(value)
  return /^[\w.:/-]+$/.test(value) ? value : `"${escaped(value, "$&$&")}"`
}
