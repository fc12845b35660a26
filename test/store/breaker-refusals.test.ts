/** Ceilings of ten minutes in the database: what a refusal by one asks, and whose they are. */
import { expect, test } from "bun:test"
import { micro } from "../../actors/money/micro.ts"
import { breakerPurses, breakerStore, purseOf } from "../../src/store/breakers.ts"
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

test("a ceiling that is set and a pause that is ended are of one account, or of its own key, alone", async () => {
  await using target = await openTestDatabase()
  const books = await Books.open(target)
  const [own, other] = [await books.customer(), await books.customer()]
  await target.sql`update accounts set paused_at = now()`
  await target.sql`update api_keys set paused_at = now()`
  const breakers = breakerStore(target.db)
  const breaker = { ceilingMicro: micro(1_000n), factor: undefined, stops: true, pauseMinutes: undefined }
  expect(await breakers.setKey({ accountId: own.accountId, keyId: other.keyId }, breaker)).toBeUndefined()
  expect(await breakers.resume(own.accountId, other.keyId)).toEqual([])
  await breakers.setAccount(own.accountId, breaker)
  await breakers.setKey(own, breaker)
  await breakers.resume(own.accountId)
  await breakers.resume(own.accountId, own.keyId)
  const row = async (table: string, id: string) =>
    (
      await target.sql`select breaker_ceiling_micro, paused_at is not null as paused from ${target.sql(table)} where id = ${id}`
    )[0]
  for (const [{ accountId, keyId }, state] of [
    [own, { breaker_ceiling_micro: 1_000n, paused: false }],
    [other, { breaker_ceiling_micro: null, paused: true }],
  ] as const) {
    expect(await row("accounts", accountId)).toEqual(state)
    expect(await row("api_keys", keyId)).toEqual(state)
  }
})
