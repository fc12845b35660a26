import { afterAll, beforeAll, expect, test } from "bun:test"
import { startTestGateway, type Person, type TestGateway } from "../../gateway/harness.ts"
import { caller, makeOperator } from "./operator.ts"

let gateway: TestGateway
let operator: Person
let ask: ReturnType<typeof caller>
beforeAll(async () => {
  gateway = await startTestGateway({ env: { DRAIN_LEFT_MS: "50" } })
  operator = await makeOperator(gateway)
  ask = caller(gateway, operator)
})
afterAll(() => gateway[Symbol.asyncDispose]())

const say = async (key: string, model: string) => {
  const body = { model, max_tokens: 50, messages: [{ role: "user", content: "hi" }] }
  const response = await gateway.post("/v1/chat/completions", key, body)
  await response.text()
  return response
}
const ids = (rows: { id: unknown }[]) => rows.map(({ id }) => id)

test("the overview adds up what was called, charged, paid and given in its time, and nothing of another", async () => {
  const before = (await ask("/operator/overview")).json
  const person = await gateway.person(20_000)
  const { key } = await gateway.key(person)
  const good = await gateway.model({ format: "chat" })
  const bad = await gateway.model({ format: "chat", script: "fault=status&status=400" })
  for (let count = 0; count < 2; count++) expect((await say(key, good)).status).toBe(200)
  expect((await say(key, bad)).status).toBe(400)
  await ask(`/operator/accounts/${person.accountId}/adjustments`, {
    amount_micro: -7_000,
    reason: "a test",
    idempotency_key: "k",
  })
  const { json } = await ask("/operator/overview")
  const spent = 20_000_000_000 - 7_000 - (await gateway.balance(person)).balance_micro
  expect(spent).toBeGreaterThan(0)
  expect(json).toMatchObject({
    calls: { total: 3, by_status: { ok: 2, upstream_error: 1 }, by_error_code: { "upstream.invalid_request": 1 } },
    revenue_micro: spent,
    charged_micro: spent,
    service_fees_micro: 0,
    absorbed_micro: 0,
    top_ups: { count: 1, amount_micro: 20_000_000_000 },
    adjusted_micro: -7_000,
    new_accounts: before.new_accounts + 1,
    now: { accounts: before.now.accounts + 1, frozen_accounts: 0, held_micro: 0, open_calls: 0, processes: 1 },
    this_process: { in_flight: 0, ledger_backlog: 0 },
  })
  expect(json.now.balances_micro - before.now.balances_micro).toBe(20_000_000_000 - 7_000 - spent)
  const yesterday = await ask("/operator/overview?from=2026-01-01&to=2026-01-31")
  expect(yesterday.json).toMatchObject({ calls: { total: 0, by_status: {} }, revenue_micro: 0, new_accounts: 0 })
})

/** In Jakarta. */
const dayOf = (ms: number) => new Date(ms + 7 * 3_600_000).toISOString().slice(0, 10)

test("days add up to the overview, each with its calls, its revenue, and who was new and active on it", async () => {
  const zone = "Asia/Jakarta"
  await gateway.dashboard(operator, "/account", { method: "PATCH", body: JSON.stringify({ time_zone: zone }) })
  const day = 24 * 3_600_000
  const [today, before] = [dayOf(Date.now()), dayOf(Date.now() - 2 * day)]
  const path = `/operator/overview/days?from=${before}&to=${today}`
  const was = (await ask(path)).json.data.find((each: { day: string }) => each.day === today)
  const [one, another, old] = [await gateway.person(20_000), await gateway.person(20_000), await gateway.person()]
  const model = await gateway.model({ format: "chat" })
  for (const person of [one, one, another]) await say((await gateway.key(person)).key, model)
  // The last moment of a day in Jakarta, and the first of the next one.
  const midnight = Date.parse(`${before}T17:00:00Z`)
  await gateway.sql`update accounts set created_at = ${new Date(midnight - 1)} where id = ${old.accountId}`
  for (const [hour, account] of [
    [midnight - 3_600_000, one.accountId],
    [midnight - 2 * 3_600_000, one.accountId],
    [midnight, another.accountId],
  ] as const)
    await gateway.sql`
      insert into profit_hours (hour, account_id, model, member, kind, records, input_tokens, output_tokens, cache_read_tokens,
        cache_write_tokens, charge_micro, absorbed_micro, cost_micro, estimated_micro, unknown, under, under_micro)
      values (${new Date(hour)}, ${account}, 'm', 'm', 'ok', 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)`
  const { data } = (await ask(path)).json as {
    data: { day: string; calls: number; revenue_micro: number; new_accounts: number; active_accounts: number }[]
  }
  expect(data).toMatchObject([
    { day: before, calls: 0, new_accounts: 1, active_accounts: 1 },
    { day: dayOf(Date.now() - day), calls: 0, new_accounts: 0, active_accounts: 1 },
    {
      day: today,
      calls: was.calls + 3,
      new_accounts: was.new_accounts + 2,
      active_accounts: was.active_accounts + 2,
    },
  ])
  const overview = (await ask(`/operator/overview?from=${before}&to=${today}`)).json
  const sum = (name: "calls" | "revenue_micro" | "new_accounts") => data.reduce((all, each) => all + each[name], 0)
  expect([sum("calls"), sum("revenue_micro"), sum("new_accounts")]).toEqual([
    overview.calls.total,
    overview.revenue_micro,
    overview.new_accounts,
  ])
  expect((await ask("/operator/overview/days?from=2026-01-01&to=2026-06-01")).json.code).toBe("request.invalid")
})

test("what is under way shows in the overview", async () => {
  const slow = await gateway.model({ format: "chat", script: "ttft=60000", max_output_tokens: 100 })
  const person = await gateway.person(20_000)
  const { key } = await gateway.key(person)
  const leaving = new AbortController()
  const body = { model: slow, messages: [{ role: "user", content: "hi" }] }
  const call = gateway.post("/v1/chat/completions", key, body, { signal: leaving.signal }).catch(() => {})
  let overview = (await ask("/operator/overview")).json
  while (overview.now.open_calls === 0) overview = (await ask("/operator/overview")).json
  expect(overview.this_process.in_flight).toBe(1)
  expect(overview.now.held_micro).toBe((await gateway.balance(person)).held_micro)
  leaving.abort()
  await call
})

test.each(["from=yesterday", "to=2026-02-31", "from=2026-01-01&to=2026-06-01"])(
  "an overview of %s is refused",
  async (query) => {
    const { status, json } = await ask(`/operator/overview?${query}`)
    expect([status, json.code]).toEqual([400, "request.invalid"])
  },
)

test("an overview is of 92 days at most, by the operator's calendar, also where summer time ends in them", async () => {
  const abroad = await makeOperator(gateway)
  const look = caller(gateway, abroad)
  expect((await look("/account", { time_zone: "America/New_York" }, "PATCH")).status).toBe(200)
  const answers = async (query: string) => (await look(`/operator/overview?${query}`)).status
  expect(await answers("from=2026-08-15&to=2026-11-14")).toBe(200)
  expect(await answers("from=2026-08-14&to=2026-11-14")).toBe(400)
})

test("flagged records are listed page by page with what they are, and sums say how many", async () => {
  const person = await gateway.person(20_000)
  const { id: keyId } = await gateway.key(person)
  const record = async (id: string, status: string, absorbed: number, excess = 0) =>
    await gateway.sql`
      insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens,
        output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, excess_micro, price_id, turns, attempts,
        flagged, opened_at, duration_ms)
      values (${id}, 0, ${person.accountId}, ${keyId}, 0, 'plain', 'chat', false, ${status}, 0, 0, 0, 0, 0, ${absorbed}, ${excess}, 1,
        1, 1, true, now(), 1)`
  await record("req_a", "usage_missing", 0)
  await record("req_b", "billing_error", 0)
  await record("req_c", "billing_error", 5)
  await record("req_d", "ok", 7)
  await record("req_e", "ok", 9, 8)
  const first = (await ask("/operator/billing-health?limit=3")).json
  const second = (await ask(`/operator/billing-health?limit=3&cursor=${first.next_cursor}`)).json
  const kinds = [...first.data, ...second.data].map((row: { request_id: string; kind: string }) => [
    row.request_id,
    row.kind,
  ])
  expect(kinds).toEqual([
    ["req_e", "excess"],
    ["req_d", "fenced"],
    ["req_c", "fenced"],
    ["req_b", "billing_error"],
    ["req_a", "usage_missing"],
  ])
  expect(second.next_cursor).toBeNull()
  expect(first.sums).toMatchObject({
    usage_missing: 1,
    billing_error: 1,
    fenced: 2,
    fenced_micro: 12,
    excess: 1,
    excess_micro: 8,
  })
  await gateway.sql`delete from usage where request_id in ('req_a', 'req_b', 'req_c', 'req_d', 'req_e')`
})

test("reconciliations are told with what they found", async () => {
  await gateway.sql`
    with run as (
      insert into reconciliations (ended_at, claims, differences, not_compared) values (now(), '[]', 1, 0) returning id
    )
    insert into reconciliation_differences (reconciliation_id, claim, account_id, figures, mended)
    select id, 'a claim', 'acc_1', '{"posted_micro":"5"}', false from run`
  const { json } = await ask("/operator/billing-health")
  expect(json.reconciliation.runs[0]).toMatchObject({ differences: 1, not_compared: 0 })
  expect(json.reconciliation.differences[0]).toMatchObject({
    reconciliation_id: json.reconciliation.runs[0].id,
    claim: "a claim",
    account_id: "acc_1",
    figures: { posted_micro: "5" },
    mended: false,
  })
})

test("a reconciliation whose process died is broken off, and one of a living process is under way", async () => {
  const [living] = await gateway.sql<{ id: string }[]>`select id from processes where closed_at is null limit 1`
  await gateway.sql`insert into processes (id, closed_at) values ('proc_dead', now())`
  await gateway.sql`
    insert into reconciliations (process_id, started_at) values
      (${living?.id ?? ""}, now() - interval '2 days'), (${living?.id ?? ""}, now()), ('proc_dead', now()), ('proc_gone', now()),
      (null, now() - interval '2 days'), (null, now())`
  const { json } = await ask("/operator/billing-health")
  const runs = json.reconciliation.runs.slice(0, 6) as { ended_at: string | null; broken_off: boolean }[]
  expect(runs.map(({ broken_off: isBrokenOff }) => isBrokenOff)).toEqual([false, true, true, true, false, true])
  expect(runs.every(({ ended_at: at }) => at === null)).toBe(true)
  await gateway.sql`delete from reconciliations where ended_at is null`
})

test("everybody's top-ups are listed by status, each once", async () => {
  const people = [await gateway.person(10_000), await gateway.person(10_000)]
  const [first] = people
  if (first === undefined) throw new Error("nobody")
  await gateway.dashboard(first, "/top-ups", { method: "POST", body: JSON.stringify({ amount_rp: 12_000 }) })
  const pending = (await ask("/operator/top-ups?status=pending")).json
  expect(pending.data).toMatchObject([{ status: "pending", account_id: first.accountId }])
  const seen: unknown[] = []
  for (let path = "/operator/top-ups?status=paid&limit=2"; path !== "";) {
    const { json } = await ask(path)
    seen.push(...ids(json.data))
    path = json.next_cursor === null ? "" : `/operator/top-ups?status=paid&limit=2&cursor=${json.next_cursor}`
  }
  const rows = await gateway.sql<{ id: string }[]>`
    select id from top_ups where status = 'paid' order by created_at desc, id desc`
  expect(seen).toEqual(ids([...rows]))
  expect((await ask("/operator/top-ups?status=lost")).status).toBe(400)
  const mine = (await ask(`/operator/top-ups?account_id=${first.accountId}`)).json
  expect(mine.data).toMatchObject([{ status: "pending" }, { status: "paid" }])
  const paid = (await ask(`/operator/top-ups?account_id=${first.accountId}&limit=1&cursor=${mine.next_cursor ?? ""}`))
    .json
  expect(ids(paid.data)).toEqual(ids(mine.data).slice(0, 1))
  expect(
    ids((await ask(`/operator/top-ups?account_id=${first.accountId}&limit=1&cursor=${paid.next_cursor}`)).json.data),
  ).toEqual(ids(mine.data).slice(1))
  expect((await ask("/operator/top-ups?account_id=acc_nobody")).json).toEqual({ data: [], next_cursor: null })
  expect((await ask("/operator/top-ups?account_id=nobody")).status).toBe(400)
})

test("a payment problem is resolved once, with a note and in writing", async () => {
  await gateway.sql`
    insert into payment_problems (provider, kind, reference, paid) values ('simulated', 'unknown_order', 'top_x', '5 IDR')`
  const [problem] = (await ask("/operator/payment-problems")).json.data
  expect(problem).toMatchObject({ kind: "unknown_order", reference: "top_x", paid: "5 IDR", resolved_at: null })
  expect(problem.account_id).toBeNull()
  const path = `/operator/payment-problems/${problem.id}/resolve`
  expect((await ask(path, {})).status).toBe(400)
  const { status, json } = await ask(path, { note: "paid back" })
  expect([status, json.note, json.resolved_by]).toEqual([200, "paid back", operator.accountId])
  expect((await ask(path, { note: "another" })).json.note).toBe("paid back")
  expect((await ask("/operator/payment-problems")).json.data).toEqual([])
  expect(ids((await ask("/operator/payment-problems?resolved=true")).json.data)).toEqual([problem.id])
  const log = (await ask(`/operator/audit?subject=${problem.id}`)).json.data
  expect(log).toMatchObject([{ action: "payment_problem.resolved", reason: "paid back" }])
  for (const id of ["0", "x", "99999999999999999999"])
    expect((await ask(`/operator/payment-problems/${id}/resolve`, { note: "n" })).status).toBe(404)
})

test("a payment problem of a top-up says whose it is", async () => {
  const person = await gateway.person(10_000)
  await gateway.sql`
    insert into payment_problems (provider, kind, reference, top_up_id, paid)
    select provider, 'wrong_amount', id, id, '5 IDR' from top_ups where account_id = ${person.accountId}`
  const [problem] = (await ask("/operator/payment-problems")).json.data
  expect(problem.account_id).toBe(person.accountId)
  const { json } = await ask(`/operator/payment-problems/${problem.id}/resolve`, { note: "credited by hand" })
  expect([json.account_id, json.note]).toEqual([person.accountId, "credited by hand"])
})

test("sums that are more than a JSON integer can say are told as that much, and no page breaks", async () => {
  const most = Number.MAX_SAFE_INTEGER
  const [rich, richer] = [await gateway.person(20_000), await gateway.person(20_000)]
  const { key } = await gateway.key(richer)
  await gateway.sql`update balances set posted_micro = ${String(most - 5)}::bigint where account_id = ${rich.accountId}`
  await gateway.sql`update balances set posted_micro = ${String(most)}::bigint + 5 where account_id = ${richer.accountId}`
  expect((await ask("/operator/overview")).json.now.balances_micro).toBe(most)
  for (const [{ accountId, token }, balance] of [
    [rich, most - 5],
    [richer, most],
  ] as const) {
    expect((await ask(`/operator/accounts/${accountId}`)).json.balance_micro).toBe(balance)
    const headers = { Authorization: `Bearer ${token}` }
    const own = await fetch(`${gateway.url}/account`, { headers })
    expect(await own.json()).toMatchObject({ balance_micro: balance })
  }
  const answer = await fetch(`${gateway.url}/v1/balance`, { headers: { Authorization: `Bearer ${key}` } })
  expect(await answer.json()).toMatchObject({ balance_micro: most, available_micro: most })
})
