import { afterAll, beforeAll, expect, test } from "bun:test"
import { micro } from "../../../actors/money/micro.ts"
import { daysLeft } from "../../../src/http/dashboard/account.ts"
import { notification, openWorld, type World } from "./world.ts"

let world: World
beforeAll(async () => void (world = await openWorld()))
afterAll(() => world[Symbol.asyncDispose]())

const DAY_MS = 24 * 60 * 60 * 1000
const summary = async (token: string) => (await world.call("GET", "/account/summary", { token })).json

async function called(accountId: string, keyId: string, at: number, charge: number): Promise<void> {
  await world.sql`
    insert into usage values (${`req_${crypto.randomUUID()}`}, 0, ${accountId}, ${keyId}, 1, 'm', 'chat', false, 'ok', 1, 1, 0, 0,
      ${charge}, 0, 1, 1, 1, null, false, ${new Date(at)}, null, 1)`
}

test("a new account has nothing, has done nothing, and no pace", async () => {
  const { token } = await world.signUp()
  expect(await summary(token)).toEqual({
    balance_micro: 0,
    held_micro: 0,
    spent_today_micro: 0,
    spent_month_micro: 0,
    calls_today: 0,
    days_left: null,
    first_steps: { topped_up: false, key_made: false, call_made: false },
  })
})

test("the first steps are told as they are taken", async () => {
  const { id, token } = await world.signUp()
  const steps = async () => Object.values((await summary(token)).first_steps)
  const topUp = (await world.call("POST", "/top-ups", { token, body: { amount_rp: 10_000 } })).json
  expect(await steps()).toEqual([false, false, false])
  const paid = notification({ top_up_id: topUp.id, status: "paid", amount_rp: 10_000 })
  await world.call("POST", "/webhooks/payments/simulated", paid)
  expect(await steps()).toEqual([true, false, false])
  const key = (await world.call("POST", "/keys", { token, body: { name: "k" } })).json
  expect(await steps()).toEqual([true, true, false])
  await called(id, key.id, Date.now(), 1)
  expect(await steps()).toEqual([true, true, true])
})

test("today and this month are the account's own, and the days left go by the last seven days", async () => {
  const { id, token } = await world.signUp()
  const key = (await world.call("POST", "/keys", { token, body: { name: "k" } })).json
  await world.sql`update accounts set created_at = now() - interval '60 days' where id = ${id}`
  await world.sql`update balances set posted_micro = 1000 where account_id = ${id}`
  const today = Temporal.Now.zonedDateTimeISO("Asia/Jakarta").startOfDay()
  await called(id, key.id, today.epochMilliseconds, 100)
  await called(id, key.id, Date.now(), 200)
  const yesterday = today.epochMilliseconds - 1
  await called(id, key.id, yesterday, 400)
  await called(id, key.id, today.with({ day: 1 }).epochMilliseconds - 10 * DAY_MS, 10_000)
  expect(await summary(token)).toMatchObject({
    balance_micro: 1_000,
    spent_today_micro: 300,
    spent_month_micro: today.day === 1 ? 300 : 700,
    calls_today: 2,
    days_left: 10,
  })
})

const paces: [string, bigint, bigint, number, number | null][] = [
  ["nothing spent", 1_000n, 0n, 60, null],
  ["an old account", 7_000n, 700n, 60, 70],
  ["an account of two days", 300n, 200n, 2, 3],
  ["an account of an hour", 300n, 200n, 1 / 24, 1.5],
  ["no balance", 0n, 200n, 60, 0],
]
test.each(paces)("the days left of %s", (_, balance, spent, ageDays, days) => {
  expect(daysLeft(micro(balance), micro(spent), ageDays * DAY_MS)).toBe(days)
})

test("nothing here was answered by a bug", () => expect(world.bugs).toEqual([]))
