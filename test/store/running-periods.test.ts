/** A change of the time zone carries running days and months over, in durable state (decisions §13.5). */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { micro } from "../../actors/money/micro.ts"
import type { SpendingPeriod } from "../../actors/period.ts"
import { accountStore } from "../../src/store/accounts.ts"
import { apiKeyStore } from "../../src/store/api-keys.ts"
import { unbound } from "../../src/store/key-rows.ts"
import { budgetStatements, growBudget } from "../../src/store/budget-leases.ts"
import { keyStatements, loadKey } from "../../src/store/live-keys.ts"
import { Books } from "../money/books.ts"
import { openTestDatabase, type TestDatabase } from "./harness.ts"

let target: TestDatabase
let books: Books
let now: number
beforeEach(async () => {
  target = await openTestDatabase()
  books = await Books.open(target)
  now = at("2026-03-10T12:00:00Z")
})
afterEach(() => target.close())

const at = (iso: string) => Date.parse(iso)
const move = async (accountId: string, timeZone: string) => {
  const told = await accountStore(target.db, () => now).change(accountId, { timeZone })
  expect(told?.length).toBeGreaterThan(0)
}
async function limited(period: SpendingPeriod) {
  const customer = await books.customer(10_000_000n)
  await target.sql`
    update api_keys set spending_limit_micro = 1000, spending_period = ${period} where id = ${customer.keyId}`
  const [row] = await target.sql<{ hash: string }[]>`
    select encode(key_hash, 'hex') as hash from api_keys where id = ${customer.keyId}`
  return { ...customer, hash: row!.hash }
}
const load = async (hash: string) => (await loadKey(keyStatements(target.db), hash, now))!
const grow = (processId: string, keyId: string, period: SpendingPeriod, start: number) =>
  growBudget(budgetStatements(target.db), processId, { keyId, period, start }, micro(1n), 0)

test.each(["daily", "monthly"] as const)("a %s period goes on in the new zone with what was spent", async (period) => {
  const { accountId, hash, keyId } = await limited(period)
  const other = await limited(period)
  const { starts } = await load(hash)
  await target.sql`
    insert into key_spend (key_id, period, period_start, spent_micro)
    values (${keyId}, ${period}, ${new Date(starts[period])}, 700)`
  for (const zone of ["Pacific/Kiritimati", "Etc/GMT+12", "America/New_York"]) {
    await move(accountId, zone)
    const loaded = await load(hash)
    expect(loaded.record.timeZone).toBe(zone)
    expect([loaded.starts[period], loaded.spent[period]]).toEqual([starts[period], micro(700n)])
    const [shown] = await apiKeyStore(target.db, () => now).list(accountId, { after: undefined, limit: 10 })
    expect(shown?.budget).toMatchObject({
      spentMicro: micro(700n),
      endsAt: new Date(loaded.record.running![period]!.end),
    })
  }
  expect((await load(other.hash)).record.running).toEqual({})
  const { end } = (await load(hash)).record.running![period]!
  expect(end).toBe(period === "daily" ? at("2026-03-11T04:00:00Z") : at("2026-04-01T04:00:00Z"))
  now = end - 1
  expect((await load(hash)).spent[period]).toBe(micro(700n))
  now = end
  expect(await load(hash)).toMatchObject({ starts: { [period]: end }, spent: { [period]: micro(0n) } })
  const [shown] = await apiKeyStore(target.db, () => now).list(accountId, { after: undefined, limit: 10 })
  expect(shown?.budget?.spentMicro).toBe(micro(0n))
})

test("a change to the same zone, and one there and back, leave the day as it was", async () => {
  const { accountId, hash } = await limited("daily")
  await move(accountId, "Asia/Jakarta")
  expect((await load(hash)).record.running).toEqual({})
  await move(accountId, "Pacific/Kiritimati")
  await move(accountId, "Asia/Jakarta")
  expect((await load(hash)).record.running?.daily).toMatchObject({
    start: at("2026-03-09T17:00:00Z"),
    ownEnd: at("2026-03-10T17:00:00Z"),
    end: at("2026-03-10T17:00:00Z"),
  })
})

test("a key that is made afterwards follows the calendar of the new zone", async () => {
  const { accountId } = await limited("daily")
  await move(accountId, "Pacific/Kiritimati")
  const keyHash = Buffer.alloc(32, 7)
  const shown = { id: "key_later", accountId, name: "later", keyHash, prefix: "sk-loket", last4: "last" }
  const key = { ...shown, requestsPerMinute: null, tokensPerMinute: null }
  const made = await apiKeyStore(target.db, () => now).create(
    {
      ...key,
      spendingLimitMicro: micro(5n),
      spendingPeriod: "daily",
      fallback: "never_dearer",
      showsBalance: true,
      replaysRetries: true,
      ...unbound,
    },
    { active: 10, aDay: 10 },
  )
  expect(made).toMatchObject({ budget: { endsAt: new Date("2026-03-11T10:00:00Z") } })
  expect((await load(keyHash.toString("hex"))).starts.daily).toBe(at("2026-03-10T10:00:00Z"))
})

test("changes at once agree on one zone and one day", async () => {
  const { accountId, hash } = await limited("daily")
  const zones = ["Pacific/Kiritimati", "Etc/GMT+12", "America/New_York", "UTC", "Asia/Tokyo", "Asia/Kathmandu"]
  await Promise.all(zones.map((zone) => move(accountId, zone)))
  const { record } = await load(hash)
  expect(zones).toContain(record.timeZone)
  const { start, ownEnd, end } = record.running!.daily!
  expect([start, ownEnd]).toEqual([at("2026-03-09T17:00:00Z"), at("2026-03-10T17:00:00Z")])
  const midnight = Temporal.Instant.fromEpochMilliseconds(end).toZonedDateTimeISO(record.timeZone)
  expect(midnight.startOfDay().epochMilliseconds).toBe(end)
})

test("who has not heard of the new zone leases nothing of a day that begins within the one that runs on", async () => {
  const { accountId, keyId, processId } = await limited("daily")
  const { start, midnight, end } = {
    start: at("2026-03-09T17:00:00Z"),
    midnight: at("2026-03-10T17:00:00Z"),
    end: at("2026-03-11T10:00:00Z"),
  }
  await move(accountId, "Pacific/Kiritimati")
  expect(await grow(processId, keyId, "daily", midnight)).toMatchObject({ lease: { granted: 0n }, more: false })
  expect(await grow(processId, keyId, "daily", start)).toMatchObject({ lease: { granted: 1_000n } })
  // The row that was opened in vain is not shown for the day's.
  await target.sql`update key_spend set spent_micro = 300 where key_id = ${keyId} and period_start = ${new Date(start)}`
  const [shown] = await apiKeyStore(target.db, () => now).list(accountId, { after: undefined, limit: 10 })
  expect(shown?.budget?.spentMicro).toBe(micro(300n))
  expect(await grow(processId, keyId, "daily", end)).toMatchObject({ lease: { granted: 1_000n } })
})

test("a change of anything else reads none of the keys, of which there may be thousands", async () => {
  const { accountId, keyId } = await limited("daily")
  const store = accountStore(target.db, () => now)
  expect(await store.change(accountId, { language: "en", buyerName: "Ana", budgetMails: false })).toEqual([])
  expect(await store.change(accountId, {})).toEqual([])
  expect((await store.change(accountId, { language: "id", timeZone: "Asia/Tokyo" }))?.map(({ id }) => id)).toEqual([
    keyId,
  ])
  // Told again: who hears of it the second time may not have heard the first.
  expect((await store.change(accountId, { timeZone: "Asia/Tokyo" }))?.map(({ id }) => id)).toEqual([keyId])
})
