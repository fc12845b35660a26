/** For whom the house bore something: a list that adds up, and a button that ends it. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { eventually } from "../../contract/calling.ts"
import { expectFailure } from "../../contract/expect-failure.ts"
import { type Person, startTestGateway, type TestGateway } from "../../gateway/harness.ts"
import { type Answer, caller, makeOperator } from "./operator.ts"

let gateway: TestGateway
let operator: Person
let ask: ReturnType<typeof caller>
let honest: string
let lying: string
beforeAll(async () => {
  gateway = await startTestGateway()
  operator = await makeOperator(gateway)
  ask = caller(gateway, operator)
  honest = await gateway.model({ format: "chat", script: "input=10&output=16" })
  // What a backend counts over the limit that was forwarded is the house's.
  lying = await gateway.model({ format: "chat", script: "input=10&counted=5000" })
})
afterAll(() => gateway[Symbol.asyncDispose]())

async function say(key: string, model: string): Promise<Response> {
  const body = { model, max_tokens: 16, messages: [{ role: "user", content: "hi" }] }
  const response = await gateway.post("/v1/chat/completions", key, body)
  await response.arrayBuffer()
  return response
}
async function customer() {
  const person = await gateway.person(100_000)
  return { ...person, key: (await gateway.key(person)).key }
}
const health = async (query = ""): Promise<Answer["json"]> => {
  const { status, json } = await ask(`/operator/billing-health${query}`)
  expect(status).toBe(200)
  return json
}
/** What the books say that the house bore. */
async function grown(): Promise<number> {
  const [row] = await gateway.sql`
    select coalesce(sum(case debit_account when 'house:absorbed' then amount_micro else -amount_micro end), 0)::float8 as sum
    from transfers where 'house:absorbed' in (debit_account, credit_account)`
  return row?.["sum"] as number
}
const sumOf = ({ accounts, others }: { accounts: { absorbed_micro: number }[]; others: { absorbed_micro: number } }) =>
  accounts.reduce((sum, account) => sum + account.absorbed_micro, others.absorbed_micro)
const of = (json: Answer["json"], { accountId }: Person) =>
  json.absorbed.accounts.find((account: { account_id: string }) => account.account_id === accountId)

test("accounts are listed with what they cost, and add up to what the house's account grew by", async () => {
  const before = await grown()
  const [small, large, good] = [await customer(), await customer(), await customer()]
  const calls: string[] = []
  for (let call = 0; call < 7; call++) calls.push((await say(large.key, lying)).headers.get("x-request-id") ?? "")
  const one = (await say(small.key, lying)).headers.get("x-request-id")
  for (let call = 0; call < 3; call++) expect((await say(good.key, honest)).status).toBe(200)
  const each = (5_000 - 16) * 5_000
  const json = await health()
  expect(of(json, large)).toEqual({
    account_id: large.accountId,
    email: expect.stringContaining("@"),
    absorbed_micro: 7 * each,
    calls: 7,
    newest_at: expect.any(String),
    request_ids: calls.slice(2).reverse(),
    active_key_count: 1,
    frozen: false,
    deleted_at: null,
  })
  expect(of(json, small)).toMatchObject({ absorbed_micro: each, calls: 1, request_ids: [one] })
  expect(of(json, good)).toBeUndefined()
  const ids = json.absorbed.accounts.map((account: { account_id: string }) => account.account_id)
  expect(ids.indexOf(large.accountId)).toBeLessThan(ids.indexOf(small.accountId))
  expect(await grown()).toBe(before + 8 * each)
  expect([json.absorbed.sum_micro, sumOf(json.absorbed)]).toEqual([before + 8 * each, before + 8 * each])
  // What the backend counted is what was charged and what was absorbed.
  const { balance_micro: left } = await gateway.balance(large)
  expect(100_000_000_000 - left + 7 * each).toBe(7 * (10 * 1_000 + 5_000 * 5_000))
})

test("what was taken back counts no more, and what belongs to no record is among the others", async () => {
  const person = await customer()
  const id = (await say(person.key, lying)).headers.get("x-request-id")
  const before = await health()
  expect(of(before, person).calls).toBe(1)
  await gateway.sql`
    insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
    select 'void-absorb:' || ${id}, 'house:revenue', 'house:absorbed', absorbed_micro, 'void' from usage where request_id = ${id}`
  await gateway.sql`
    insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
    values ('by-hand:none', 'house:absorbed', 'house:revenue', 77, 'by hand')`
  const others = async () => (await health()).absorbed.others.absorbed_micro - before.absorbed.others.absorbed_micro
  await eventually("it is not among the others", others, (micro) => micro === 77)
  const after = await health()
  expect(of(after, person)).toBeUndefined()
  expect([after.absorbed.sum_micro, sumOf(after.absorbed)]).toEqual([await grown(), await grown()])
})

test("is of the time that was asked for", async () => {
  const person = await customer()
  const id = (await say(person.key, lying)).headers.get("x-request-id")
  expect(of(await health("?from=2026-01-01&to=2026-01-31"), person)).toBeUndefined()
  const today = new Date().toISOString()
  expect(of(await health(`?to=${today}&from=${new Date(Date.now() - 60_000).toISOString()}`), person)).toMatchObject({
    request_ids: [id],
  })
  expect((await health(`?from=${new Date(Date.now() + 1_000).toISOString()}&to=2027-01-01`)).absorbed).toMatchObject({
    sum_micro: 0,
    accounts: [],
    others: { accounts: 0, absorbed_micro: 0 },
  })
  for (const query of ["?from=yesterday", "?from=2026-01-01&to=2026-06-01"]) {
    const { status, json } = await ask(`/operator/billing-health${query}`)
    expect([status, json.code]).toEqual([400, "request.invalid"])
  }
})

test("a hundred accounts are named, and the rest are counted", async () => {
  const before = await health()
  await gateway.sql.unsafe(`
    insert into accounts (id, email, password_hash) select 'acc_crowd' || n, 'crowd' || n || '@example.com', '' from generate_series(1, 130) n;
    insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens,
        output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts,
        flagged, opened_at, duration_ms)
      select 'req_crowd' || n, 0, 'acc_crowd' || n, 'key', 0, 'plain', 'chat', false, 'ok', 0, 0, 0, 0, 0, n, 1, 1, 1, false, now(), 1
      from generate_series(1, 130) n;
    insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
      select 'absorb:req_crowd' || n, 'house:absorbed', 'house:revenue', n, 'absorbed' from generate_series(1, 130) n`)
  const { absorbed } = await health()
  expect(absorbed.accounts).toHaveLength(100)
  expect(absorbed.others.accounts).toBe(before.absorbed.accounts.length + 130 - 100)
  expect([absorbed.sum_micro, sumOf(absorbed)]).toEqual([await grown(), await grown()])
})

test("an account is frozen from there, which is in force and in the audit log", async () => {
  const person = await customer()
  await say(person.key, lying)
  const frozen = await ask(`/operator/accounts/${person.accountId}/freeze`, { reason: "costs more than it pays" })
  expect(frozen.json.frozen).toBe(true)
  await expectFailure(
    await fetch(`${gateway.url}/v1/models`, { headers: { "x-api-key": person.key } }),
    403,
    "auth.account_frozen",
  )
  expect(of(await health(), person)).toMatchObject({ frozen: true })
  const audit = await ask(`/operator/audit?subject=${person.accountId}`)
  expect(audit.json.data[0]).toMatchObject({ action: "account.frozen", reason: "costs more than it pays" })
  await ask(`/operator/accounts/${person.accountId}/unfreeze`, { reason: "a test" })
  expect(of(await health(), person)).toMatchObject({ frozen: false })
})

test("is for operators alone", async () => {
  const person = await customer()
  await expectFailure(await gateway.dashboard(person, "/operator/billing-health"), 403, "auth.forbidden")
})
