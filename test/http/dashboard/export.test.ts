/** The export of one's own: whole, nobody else's, without secrets and without the house's costs, and for the password only. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { EXPORTS_A_DAY } from "../../../src/http/dashboard/activity.ts"
import { startTestGateway, type Person, type TestGateway } from "../../gateway/harness.ts"

let gateway: TestGateway
beforeAll(async () => void (gateway = await startTestGateway()))
afterAll(() => gateway[Symbol.asyncDispose]())

const sum = (list: readonly { readonly amount_micro: number }[]) =>
  list.reduce((all, { amount_micro: amount }) => all + amount, 0)

const exported = (person: Person, password = "correct horse battery", headers: Record<string, string> = {}) =>
  gateway.dashboard(person, "/account/export", { method: "POST", body: JSON.stringify({ password }), headers })

test("it is all of one's own, and nothing of others, no secret and no cost", async () => {
  const person = await gateway.person(1_000_000)
  const other = await gateway.person(1_000_000)
  const { key } = await gateway.key(person, { name: "Produksi" })
  const { key: otherKey } = await gateway.key(other, { name: "Orang lain" })
  const model = await gateway.model({ format: "chat" })
  const say = async (by: string) => {
    const body = { model, max_tokens: 10, messages: [{ role: "user", content: "hi" }] }
    const { headers } = await gateway.post("/v1/chat/completions", by, body)
    return headers.get("x-request-id") ?? ""
  }
  const calls = [await say(key), await say(key)]
  const foreign = await say(otherKey)
  await gateway.dashboard(person, `/usage/${calls[0]}`)
  const settled = async () =>
    (await gateway.sql`select from usage where account_id = ${person.accountId} and part = 0`).length === 2
  while (!(await settled())) await Bun.sleep(20)
  const response = await exported(person)
  expect(response.status).toBe(200)
  expect(response.headers.get("content-disposition")).toContain("loket-account.json")
  expect(response.headers.get("cache-control")).toContain("no-store")
  const text = await response.text()
  const file = JSON.parse(text)
  expect(file).toMatchObject({
    account: [{ id: person.accountId, role: "customer", time_zone: "Asia/Jakarta", budget_mails: false }],
    balance: [{ claim_micro: 0 }],
    keys: [{ name: "Produksi" }],
    calls: calls.toSorted().map((id) => ({ request_id: id, model, status: "ok" })),
  })
  expect(file.sessions.length).toBeGreaterThan(0)
  expect(file.sign_in_networks).toHaveLength(1)
  expect(file.charges.map(({ request_id: id }: { request_id: string }) => id)).toEqual(calls.toSorted())
  expect(sum(file.movements) - sum(file.charges)).toBe(file.balance[0].balance_micro)
  for (const secret of [
    key,
    person.token,
    other.accountId,
    foreign,
    "Orang lain",
    "hash",
    "secret",
    "cost",
    "absorbed",
  ])
    expect([secret, text.includes(secret)]).toEqual([secret, false])
})

test("webhooks, alerts, refused calls, refunds, the second factor and the agreement are in it, without what opens them", async () => {
  const { sql } = gateway
  const [person, other] = [await gateway.person(50_000), await gateway.person(50_000)]
  for (const [owner, name] of [
    [person, "mine"],
    [other, "theirs"],
  ] as const) {
    const { accountId } = owner
    await gateway.key(owner)
    await sql`
      insert into second_factors (account_id, secret, confirmed_at) values (${accountId}, ${Buffer.from(`seed-${name}`)}, now())`
    await sql`
      insert into recovery_codes (account_id, code_hash)
      values (${accountId}, ${Buffer.from(`c1-${name}`)}), (${accountId}, ${Buffer.from(`c2-${name}`)})`
    await sql`
      insert into webhooks (account_id, url, secret, former_secret) values (${accountId}, ${`https://${name}.example/hook`},
        'whsec_NEW', 'whsec_OLD')`
    await sql`
      insert into outbox (account_id, channel, kind, data, expires_at, problem)
      select ${accountId}, 'webhook', 'balance.low', jsonb_build_object('note', ${name}::text), now() + interval '1 day', 'x'
      from generate_series(1, 501)`
    await sql`
      insert into refused_calls (request_id, account_id, key_id, refused_at, endpoint, model, code)
      select ${`req_${name}`}, ${accountId}, id, now(), 'chat', 'm', 'rate_limit.requests' from api_keys
      where account_id = ${accountId} limit 1`
    await sql`
      insert into refunds (id, account_id, kind, idempotency_key, status, balance_micro, service_fee_micro, payment_fee_micro, claimed_micro, reason)
      values (${`ref_${name}`}, ${accountId}, 'refund', ${name}, 'booked', 1, 0, 0, 0, ${name})`
    await sql`update accounts set agreed_version = ${`v-${name}`}, agreed_at = now() where id = ${accountId}`
  }
  const text = await (await exported(person)).text()
  const file = JSON.parse(text)
  expect(file).toMatchObject({
    account: [{ agreed_version: "v-mine" }],
    two_step_verification: [{ recovery_codes_left: 2 }],
    webhooks: [{ url: "https://mine.example/hook" }],
    refused_calls: [{ request_id: "req_mine", code: "rate_limit.requests" }],
    refunds: [{ id: "ref_mine", reason: "mine" }],
  })
  expect(file.alerts).toHaveLength(501)
  expect(file.alerts[0]).toMatchObject({ kind: "balance.low", data: { note: "mine" } })
  for (const hidden of [
    "theirs",
    "whsec",
    "seed-",
    Buffer.from("seed-mine").toString("hex"),
    "hash",
    "secret",
    other.accountId,
  ])
    expect([hidden, text.includes(hidden)]).toEqual([hidden, false])
})

test("a history of many batches is whole, each call once", async () => {
  const person = await gateway.person()
  await gateway.sql`
    insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens, output_tokens,
      cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts, flagged, opened_at, duration_ms)
    select 'req_' || lpad(n::text, 6, '0'), 0, ${person.accountId}, 'key_x', 1, 'm', 'chat', false, 'ok', 1, 1, 0, 0, 0, 0, 1, 1, 1, false, now(), 1
    from generate_series(1, 1000) n`
  const { calls } = (await (await exported(person)).json()) as { calls: { request_id: string }[] }
  expect(new Set(calls.map(({ request_id: id }) => id)).size).toBe(1_000)
  expect(calls).toHaveLength(1_000)
})

test("without the password, or too often, there is none", async () => {
  const person = await gateway.person()
  expect((await exported(person, "wrong horse battery")).status).toBe(401)
  for (let time = 0; time < EXPORTS_A_DAY; time++) expect((await exported(person)).status).toBe(200)
  const refused = await exported(person)
  expect([refused.status, refused.headers.get("x-error-code")]).toEqual([429, "rate_limit.export"])
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(80_000)
  expect((await exported(await gateway.person())).status).toBe(200)
})

test("of the same request sent at the same moment one is answered with the file, and the others are told so", async () => {
  const person = await gateway.person()
  const asked = () => exported(person, "correct horse battery", { "idempotency-key": "once" })
  const answers = await Promise.all([asked(), asked(), asked()])
  const found = answers.map(({ status, headers }) => `${status} ${headers.get("x-error-code")}`)
  expect(found.sort()).toEqual(["200 null", "409 idempotency.finished", "409 idempotency.finished"])
  const file = answers.find(({ status }) => status === 200)
  expect(await file?.json()).toMatchObject({ account: [{ id: person.accountId }] })
  const later = await asked()
  expect([later.status, later.headers.get("x-error-code")]).toEqual([409, "idempotency.finished"])
})
