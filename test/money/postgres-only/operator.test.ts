/** What an operator does at one process reaches the money, the prices and the keys that another one has in hand. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { startTestGateway, type TestGateway } from "../../gateway/harness.ts"
import { caller, makeOperator } from "../../http/operator/operator.ts"
import { reconcile } from "../reconcile.ts"

let here: TestGateway
let there: TestGateway
let ask: ReturnType<typeof caller>
let model: string
beforeAll(async () => {
  let shared = ""
  here = await startTestGateway({ databaseUrl: (url) => (shared = url) })
  there = await startTestGateway({ databaseUrl: () => shared })
  ask = caller({ ...there, sql: here.sql }, await makeOperator(here))
  model = await here.model({ format: "chat" })
}, 30_000)
afterAll(async () => {
  await there[Symbol.asyncDispose]()
  await here[Symbol.asyncDispose]()
})

const say = async (key: string) => {
  const body = { model, max_tokens: 50, messages: [{ role: "user", content: "hi" }] }
  const response = await here.post("/v1/chat/completions", key, body)
  await response.text()
  return response.status
}

test("a debit takes what another process has leased, to the last micro, and a credit is spent there", async () => {
  const person = await here.person(10_000)
  const { key } = await here.key(person)
  expect(await say(key)).toBe(200)
  const { balance_micro } = await here.balance(person)
  const path = `/operator/accounts/${person.accountId}/adjustments`
  const adjust = (amount_micro: number, idempotency_key: string) =>
    ask(path, { amount_micro, reason: "a test", idempotency_key })
  const taken = await adjust(-balance_micro, "out")
  expect([taken.status, taken.json.balance_micro]).toEqual([201, 0])
  while ((await say(key)) !== 402) await Bun.sleep(20)
  expect((await adjust(1_000_000_000, "in")).status).toBe(201)
  while ((await say(key)) !== 200) await Bun.sleep(20)
  await reconcile(here.sql, { busy: true })
})

test("a frozen account's keys are refused there, and served again", async () => {
  const person = await here.person(10_000)
  const { key } = await here.key(person)
  expect(await say(key)).toBe(200)
  await ask(`/operator/accounts/${person.accountId}/freeze`, { reason: "a test" })
  while ((await say(key)) !== 403) await Bun.sleep(20)
  await ask(`/operator/accounts/${person.accountId}/unfreeze`, { reason: "a test" })
  while ((await say(key)) !== 200) await Bun.sleep(20)
})

const arrivedAt = (requestId: string): number => Number.parseInt(requestId.slice(4, 13), 36)

test("a price that is set here is a price there, and no call there is charged the old one after its time", async () => {
  const person = await here.person(100_000)
  const { key } = await here.key(person)
  const rates = { input_micro: 1_900, output_micro: 5_000, cache_read_micro: 100, cache_write_micro: 1_250 }
  const { status, json } = await ask(`/operator/models/${model}/prices`, rates)
  expect(status).toBe(201)
  const effectiveAt = new Date(json.after.effective_at)
  while (Date.now() < effectiveAt.getTime() + 200) expect(await say(key)).toBe(200)
  const calls = await here.sql<{ id: string; opened_at: Date; input_micro: bigint }[]>`
    select u.request_id as id, u.opened_at, p.input_micro
    from usage u join prices p on p.id = u.price_id join api_keys k on k.id = u.key_id
    where k.account_id = ${person.accountId}`
  // One that came before that time and was opened after it has either price: between the two it is looked up.
  const prices = (isEarly: boolean) => [
    ...new Set(
      calls
        .filter(({ id, opened_at: openedAt }) =>
          isEarly ? openedAt < effectiveAt : arrivedAt(id) >= effectiveAt.getTime(),
        )
        .map((call) => call.input_micro),
    ),
  ]
  expect([prices(true), prices(false)]).toEqual([[1_000n], [1_900n]])
})
