/**
 * The books in memory are held against the product's own SQL: the same moves, in any order, have the same outcomes, and
 * leave the same rows. A difference is printed with the moves that lead to it, as few as were found, and their seed.
 */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { onPostgres, openTestDatabase } from "../store/harness.ts"
import type { Books } from "./books.ts"
import type { Dump } from "./dump.ts"
import { toldOf, violations } from "./invariants.ts"
import { ModelBooks } from "./model-books.ts"
import { allMoves, type Move } from "./moves.ts"
import { Side } from "./side.ts"
import { SqlBooks } from "./sql-books.ts"
import { Course } from "./course.ts"

const worlds = Number(Bun.env.LOKET_TEST_WORLDS ?? (onPostgres ? 100 : 40))
/** Also ends the search for fewer moves. */
const LIMIT_MS = 60_000

test("books in memory and in Postgres have the same outcomes and the same rows, whatever is done", async () => {
  await using target = await openTestDatabase()
  await using sqlBooks = await SqlBooks.open(target)
  const property = fc.asyncProperty(
    fc.array(allMoves, { minLength: 10, maxLength: 110, size: "max" }),
    async (made) => {
      await sqlBooks.clear()
      const modelBooks = new ModelBooks()
      const [model, sql] = [new Side(modelBooks), new Side(sqlBooks)]
      await play(made, model, sql)
      if (onPostgres) expect(await heard(modelBooks)).toEqual(await heard(sqlBooks))
      const [inMemory, inSql] = [canonical(await modelBooks.dump(), model), canonical(await sqlBooks.dump(), sql)]
      expect(violations(await sqlBooks.dump()).map(toldOf)).toEqual([])
      expect(without(inSql, inMemory)).toEqual(without(inMemory, inSql))
    },
  )
  await fc.assert(property, { numRuns: worlds, interruptAfterTimeLimit: LIMIT_MS })
}, 300_000)

async function play(made: readonly Move[], model: Side, sql: Side): Promise<void> {
  const course = new Course()
  await course.begin(model)
  await course.begin(sql)
  for (const move of made) {
    const run = course.plan(move)
    const outcome = await run(model)
    expect({ move: move.kind, outcome }).toEqual({ move: move.kind, outcome: await run(sql) })
    course.learn(move, outcome)
  }
}

const heard = async (books: Books): Promise<string[]> =>
  (await books.notices()).map((notice) => Object.values(notice).map(String).sort().join(" ")).sort()

/** Of tables that differ, the rows that the other has not. */
const without = (tables: Record<string, string[]>, others: Record<string, string[]>) =>
  Object.fromEntries(
    Object.entries(tables)
      .filter(([table, rows]) => rows.join() !== others[table]?.join())
      .map(([table, rows]) => [table, rows.filter((row) => others[table]?.includes(row) !== true)]),
  )

/** Rows in the order of what they say, under the world's own ids. */
function canonical(dump: Dump, side: Side): Record<string, string[]> {
  const tables = Object.entries(dump).map(([table, rows]): [string, string[]] => [
    table,
    rows.map((row: object) => JSON.stringify(renamed(row, side))).sort(),
  ])
  return Object.fromEntries(tables)
}

function renamed(row: object, side: Side): object {
  const columns = Object.entries(row).map(([column, value]): [string, unknown] => {
    if (column === "leaseId") return [column, side.leaseOf(value as bigint)]
    if (column === "priceId") return [column, side.priceOf(value as bigint)]
    if (typeof value === "object" && value !== null) return [column, renamed(value, side)]
    return [column, typeof value === "bigint" ? String(value) : value]
  })
  return Object.fromEntries(columns.sort(([a], [b]) => (a < b ? -1 : 1)))
}
