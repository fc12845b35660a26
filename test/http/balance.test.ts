import { afterAll, beforeAll, expect, spyOn, test } from "bun:test"
import { Accounts } from "../../src/accounts/accounts.ts"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"

let gateway: TestGateway
beforeAll(async () => void (gateway = await startTestGateway()))
afterAll(() => gateway[Symbol.asyncDispose]())

const ask = (key: string, method = "GET") =>
  fetch(`${gateway.url}/v1/balance`, { method, headers: { authorization: `Bearer ${key}` } })
const code = async (response: Promise<Response>) => (await response).headers.get("x-error-code")
const hello = [{ role: "user", content: "Hello" }]

test("it tells what is left, what calls hold, and what was spent, with the key's own limits", async () => {
  const person = await gateway.person(10_000)
  const { id, key } = await gateway.key(person, {
    requests_per_minute: 10,
    spending_limit_micro: 5_000_000_000,
    spending_period: "daily",
  })
  const model = await gateway.model({ format: "chat", script: "input=100&output=10" })
  const answer = await gateway.post("/v1/chat/completions", key, { model, messages: hello, max_tokens: 50 })
  await answer.text()
  const cost = Number((await gateway.usage(person, answer.headers.get("x-request-id") ?? ""))["charge_micro"])
  expect(cost).toBeGreaterThan(0)

  const told = await ask(key)
  expect(told.headers.get("cache-control")).toBe("no-store")
  expect(told.headers.get("x-ratelimit-remaining")).toBe("8")
  expect(told.headers.get("x-key-usage-micro")).toBe(String(cost))
  expect(await told.json()).toEqual({
    object: "balance",
    balance_micro: 10_000_000_000 - cost,
    held_micro: 0,
    available_micro: 10_000_000_000 - cost,
    spent_today_micro: cost,
    spent_month_micro: cost,
    key: {
      id,
      name: expect.any(String),
      usage: {
        requests: { limit: 10, used: 2, resets_in_s: expect.any(Number) },
        tokens: null,
        budget: { limit_micro: 5_000_000_000, used_micro: cost, resets_at: expect.any(String) },
      },
    },
  })
})

test("what calls under way hold is told apart", async () => {
  const person = await gateway.person(10_000)
  const { key } = await gateway.key(person)
  const slow = await gateway.model({ format: "chat", script: "input=100&output=10&ttft=1500" })
  const body = { model: slow, messages: hello, max_tokens: 50, stream: true }
  const answering = gateway.post("/v1/chat/completions", key, body)
  let left
  do {
    left = await (await ask(key)).json()
    expect(left.available_micro).toBe(left.balance_micro - left.held_micro)
  } while (left.held_micro === 0)
  expect(left.balance_micro).toBe(10_000_000_000)
  await (await answering).text()
})

test("an owner turns it off for one key, from the next question on", async () => {
  const person = await gateway.person(10_000)
  const [shared, own] = [await gateway.key(person), await gateway.key(person)]
  expect((await ask(shared.key)).status).toBe(200)
  const change = { method: "PATCH", body: JSON.stringify({ shows_balance: false }) }
  expect((await gateway.dashboard(person, `/keys/${shared.id}`, change)).status).toBe(200)
  const refused = await ask(shared.key)
  expect([refused.status, refused.headers.get("x-error-code")]).toEqual([403, "auth.key_not_allowed"])
  expect(JSON.stringify(await refused.json())).not.toContain("micro")
  expect((await ask(own.key)).status).toBe(200)
})

test("it is one request of the key's window, and without a balance it is answered too", async () => {
  const person = await gateway.person(0)
  const { key } = await gateway.key(person, { requests_per_minute: 2 })
  expect((await (await ask(key)).json()).available_micro).toBe(0)
  expect((await ask(key)).status).toBe(200)
  const third = await ask(key)
  expect([third.status, third.headers.get("x-error-code")]).toEqual([429, "rate_limit.rpm_exceeded"])
  expect(Number(third.headers.get("retry-after"))).toBeGreaterThan(0)
})

test("of those that ask with one key at once the database is asked once, and of those that come later again", async () => {
  const person = await gateway.person(10_000)
  const { key } = await gateway.key(person, { requests_per_minute: 10 })
  const used = async () => {
    const { data } = await (await gateway.dashboard(person, "/keys")).json()
    return data[0].usage.requests.used
  }
  const open = Promise.withResolvers<void>()
  using reads = spyOn(Accounts.prototype, "account").mockImplementationOnce(async function (this: Accounts, whose) {
    await open.promise
    return await this.account(whose)
  })
  const asking = [ask(key), ask(key), ask(key)]
  while ((await used()) < 3) await Bun.sleep(5)
  open.resolve()
  for (const answer of asking) expect((await (await answer).json()).balance_micro).toBe(10_000_000_000)
  // The first one asks again when it is let go.
  expect(reads).toHaveBeenCalledTimes(2)
  expect((await ask(key)).status).toBe(200)
  expect(reads).toHaveBeenCalledTimes(3)
})

test("whoever has no key, a session, a revoked key or a frozen account is refused", async () => {
  const person = await gateway.person(10_000)
  const { key } = await gateway.key(person)
  expect(await code(fetch(`${gateway.url}/v1/balance`))).toBe("auth.api_key_missing")
  expect(await code(ask(person.token))).toBe("auth.api_key_invalid")
  expect(await code(ask(key, "POST"))).toBe("request.method_not_allowed")
  await gateway.freeze(person, "test")
  expect(await code(ask(key))).toBe("auth.account_frozen")
  const other = await gateway.person(10_000)
  const revoked = await gateway.key(other)
  await gateway.dashboard(other, `/keys/${revoked.id}/revoke`, { method: "POST" })
  expect(await code(ask(revoked.key))).toBe("auth.api_key_revoked")
})

test("a key that has spent more than a JSON integer says is told, shown and refused as any other whose limit is reached", async () => {
  const person = await gateway.person(10_000)
  const { id, key } = await gateway.key(person)
  await gateway.sql`
    insert into key_spend (key_id, period, period_start, spent_micro)
    values (${id}, 'total', '1970-01-01Z', ${String(BigInt(Number.MAX_SAFE_INTEGER) + 9n)})`
  const most = Number.MAX_SAFE_INTEGER
  const limit = JSON.stringify({ spending_limit_micro: most, spending_period: "total" })
  const changed = await gateway.dashboard(person, `/keys/${id}`, { method: "PATCH", body: limit })
  expect([changed.status, (await changed.json()).spent_micro]).toEqual([200, most])
  const { data } = await (await gateway.dashboard(person, "/keys?days=2")).json()
  expect(data).toMatchObject([{ id, spent_micro: most, usage: { budget: { used_micro: most } } }])
  const refused = await gateway.post("/v1/chat/completions", key, { model: "plain", messages: hello })
  expect([refused.status, refused.headers.get("x-error-code"), refused.headers.get("x-key-usage-micro")]).toEqual([
    429,
    "quota.key_limit_exceeded",
    String(most),
  ])
  expect((await (await ask(key)).json()).key.usage.budget.used_micro).toBe(most)
})
