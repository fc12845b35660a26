/** What a refusal by a ceiling of ten minutes asks the database. */
import { expect, test } from "bun:test"
import { micro } from "../../actors/money/micro.ts"
import { breakerPurses, purseOf } from "../../src/store/breakers.ts"
import { Books } from "../money/books.ts"
import { openTestDatabase } from "./harness.ts"

test("who is refused for calls under way is so by one statement, and by three where a clock was ahead", async () => {
  await using target = await openTestDatabase()
  const books = await Books.open(target)
  const { accountId, keyId, processId } = await books.customer()
  await target.sql`update api_keys set breaker_ceiling_micro = 1000, breaker_stops = true where id = ${keyId}`
  let statements = 0
  const counting: typeof target.db = Object.create(target.db, {
    run: {
      value: (...of: Parameters<typeof target.db.run>) => {
        statements++
        return target.db.run(...of)
      },
    },
  }) as typeof target.db
  const purse = purseOf(accountId, keyId)
  const purses = breakerPurses(counting, processId, false)
  const refused = async () => {
    statements = 0
    return [await purses.trip(purse, micro(600n)), statements]
  }
  expect(await refused()).toEqual([undefined, 1])
  await target.sql`insert into spending_minutes (purse, minute, spent_micro) values (${purse}, now() + interval '7 hours', 300)`
  expect(await refused()).toEqual([undefined, 3])
  expect(await refused()).toEqual([undefined, 1])
})
