import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { arrayElements, arrayLiteral, rowLiteral } from "../../src/store/sql.ts"
import { openTestDatabase } from "./harness.ts"

const awkward = ["", "a", "NULL", "null", "{}", "a,b", 'say "hi"', "back\\slash", "line\nbreak", " space ", "é✓", null]

test("every array of strings and nulls is read as it was written", () => {
  fc.assert(
    fc.property(fc.array(fc.option(fc.string({ unit: "binary" }))), (values) => {
      expect(arrayElements(arrayLiteral(values, String))).toEqual(values)
    }),
  )
})

test("Postgres reads the arrays that are sent, and its own are understood", async () => {
  await using database = await openTestDatabase({ connections: 1 })
  const at = new Date("2026-11-20T01:02:03.456Z")
  const [row] = await database.db.run(
    (sql) => sql`
      select ${awkward}::text[] as texts, ${sql.array([1n, -(2n ** 62n)])} as amounts, ${["3", "4"]}::bigint[] as more,
        ${sql.array([true, false])} as flags, ${[1, 2]}::integer[] as counts, ${sql.array([at])} as times,
        ${sql.array([Buffer.from("\0x")])} as bytes, '{}'::text[] as empty`,
  )
  expect(row).toEqual({
    texts: awkward,
    amounts: [1n, -(2n ** 62n)],
    more: [3n, 4n],
    flags: [true, false],
    counts: [1, 2],
    times: [at],
    bytes: [Buffer.from("\0x")],
    empty: [],
  })
})

test("rows unnested from arrays keep their order and their types", async () => {
  await using database = await openTestDatabase({ connections: 1 })
  const rows = await database.db.run(
    (sql) => sql`select * from unnest(${["a", "b"]}::text[], ${sql.array([1n, 2n])}) as t (name, amount)`,
  )
  expect([...rows]).toEqual([
    { name: "a", amount: 1n },
    { name: "b", amount: 2n },
  ])
})

test("rows of a composite type are read as they were written", async () => {
  await using database = await openTestDatabase({ connections: 1 })
  await database.sql`create type thing as (name text, amount bigint, flag boolean, missing text)`
  const names = [...awkward.filter((name) => name !== null), "", "(a,b)", "acc_1.2:3-4", "/v1/messages"]
  const literal = arrayLiteral(names, (name) => rowLiteral([name, 5n, true, undefined]))
  const rows = await database.db.run((sql) => sql`select * from unnest(${literal}::thing[])`)
  expect([...rows]).toEqual(names.map((name) => ({ name, amount: 5n, flag: true, missing: null })))
})
