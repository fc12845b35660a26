/** Somebody holds the lock of one customer's balance: an operator's open transaction, a client that is stuck. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import type { Connection } from "../../../src/store/connection.ts"
import { type Person, startTestGateway, type TestGateway } from "../../gateway/harness.ts"
import { directConnection } from "../../store/harness.ts"
import { reconcile } from "../reconcile.ts"

let gateway: TestGateway
let holder: Connection
let model: string
let locked: Customer
let other: Customer
beforeEach(async () => {
  let url = ""
  gateway = await startTestGateway({
    env: { SETTLE_DEADLINE_MS: "3000" },
    databaseUrl: (own) => {
      url = own
      return own
    },
  })
  holder = directConnection(url)
  model = await gateway.model({ format: "chat", script: "input=1&output=1" })
  locked = await customer()
  other = await customer()
  for (const { key } of [locked, other]) expect(await statusOf(ask(key))).toBe(200)
})
afterEach(async () => {
  await holder.end()
  await gateway[Symbol.asyncDispose]()
})

interface Customer {
  readonly person: Person
  readonly key: string
}

async function customer(): Promise<Customer> {
  const person = await gateway.person(100_000)
  return { person, key: (await gateway.key(person)).key }
}

const ask = (key: string) =>
  gateway.post("/v1/chat/completions", key, { model, messages: [{ role: "user", content: "Hello" }] })

async function statusOf(asked: Promise<Response>): Promise<number> {
  const response = await asked
  await response.text()
  return response.status
}

const lock = async ({ person }: Customer): Promise<void> => {
  await holder.sql`begin`
  await holder.sql`select from balances where account_id = ${person.accountId} for update`
}

test("a locked balance stops its own customer, and no other; what waited is charged once when the lock is gone", async () => {
  const before = (await gateway.balance(locked.person)).balance_micro
  await lock(locked)
  const waiting = [statusOf(ask(locked.key)), statusOf(ask(locked.key))]
  const ended: number[] = []
  for (const status of waiting) void status.then((each) => ended.push(each))
  // Each is settled while the lock is held: nobody else would end them.
  for (let n = 0; n < 10; n++) expect(await statusOf(ask(other.key))).toBe(200)
  expect(ended).toEqual([])
  await holder.sql`commit`
  expect(await Promise.all(waiting)).toEqual([200, 200])
  const costs = await gateway.sql<{ charge_micro: bigint }[]>`
    select charge_micro from usage where account_id = ${locked.person.accountId}`
  expect(costs).toHaveLength(3)
  const [first] = costs
  expect((await gateway.balance(locked.person)).balance_micro).toBe(before - 2 * Number(first?.charge_micro))
  await reconcile(gateway.sql)
})

test("who waits for a locked balance for too long is told so, and not charged; the next is refused at once", async () => {
  const before = (await gateway.balance(locked.person)).balance_micro
  await lock(locked)
  expect(await statusOf(ask(locked.key))).toBe(503)
  // It has been apart for longer than calls are admitted: this one has no record, because no backend was asked.
  expect(await statusOf(ask(locked.key))).toBe(503)
  expect(await statusOf(ask(other.key))).toBe(200)
  await holder.sql`commit`
  while ((await statusOf(ask(locked.key))) !== 200) await Bun.sleep(50)
  const records = await gateway.sql<{ status: string; charge_micro: bigint }[]>`
    select status, charge_micro from usage where account_id = ${locked.person.accountId} order by request_id`
  expect(records.map(({ status }) => status)).toEqual(["ok", "billing_error", "ok"])
  const last = records.at(-1)
  expect((await gateway.balance(locked.person)).balance_micro).toBe(before - Number(last?.charge_micro))
  await reconcile(gateway.sql)
}, 60_000)
