/** Refused calls, as their owner finds them. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { newRequestId, firstRequestId } from "../../src/http/edge.ts"
import { accountStore } from "../../src/store/accounts.ts"
import { type RefusedCall, refusedCallStore } from "../../src/store/refused-calls.ts"
import { openTestDatabase } from "../store/harness.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"

let gateway: TestGateway
let model: string
const lines: string[] = []
beforeAll(async () => {
  gateway = await startTestGateway({ logged: (line) => lines.push(line) })
  model = await gateway.model({ format: "chat", script: "input=10&output=2" })
})
afterAll(() => gateway[Symbol.asyncDispose]())

interface Listed {
  readonly data: {
    readonly request_id: string
    readonly code: string
    readonly status: number
    readonly model: string | null
    readonly key_id: string
    readonly refused_at: string
    readonly hint: string | null
  }[]
  readonly counts: { readonly code: string; readonly calls: number; readonly last_hour: string }[]
  readonly next_cursor: string | null
}
const listed = async (person: Person, query = "") => {
  const response = await gateway.dashboard(person, `/usage/refused${query}`)
  expect(response.status).toBe(200)
  return (await response.json()) as Listed
}
/** Once so many are written, which takes two seconds. */
async function whenKept(person: Person, count: number): Promise<Listed> {
  for (;;) {
    const list = await listed(person)
    if (list.data.length >= count) return list
    await Bun.sleep(50)
  }
}

async function refuse(key: string, body: object): Promise<{ readonly code: string; readonly request_id: string }> {
  const response = await gateway.post("/v1/chat/completions", key, { model, max_tokens: 16, ...body })
  expect(response.status).toBeGreaterThanOrEqual(400)
  // Ids of one millisecond have no order.
  await Bun.sleep(2)
  return (await response.json()) as { code: string; request_id: string }
}
const messages = [{ role: "user", content: "a secret prompt" }]

test("each call that was refused says when, of which key, what was asked for, and why; a prompt is nowhere", async () => {
  const person = await gateway.person(100_000)
  const poor = await gateway.person(0)
  const one = await gateway.key(person, { name: "one" })
  const slow = await gateway.key(person, { name: "slow", requests_per_minute: 1 })
  const gone = await gateway.key(person, { name: "gone" })
  await gateway.dashboard(person, `/keys/${gone.id}/revoke`, { method: "POST" })
  const made = [
    await refuse(one.key, { messages, model: "no-such-model" }),
    await refuse(one.key, { messages, model: "a secret prompt in place of a model" }),
    await refuse(one.key, { messages: "a secret prompt" }),
    await refuse(gone.key, { messages }),
  ]
  expect((await gateway.post("/v1/chat/completions", slow.key, { model, max_tokens: 16, messages })).status).toBe(200)
  made.push(await refuse(slow.key, { messages }))
  const broke = await refuse((await gateway.key(poor)).key, { messages })

  const { data, counts } = await whenKept(person, made.length)
  expect(data.map(({ request_id, code }) => ({ request_id, code }))).toEqual(
    made.map(({ request_id, code }) => ({ request_id, code })).reverse(),
  )
  expect(data.map((call) => [call.status, call.code, call.model, call.key_id])).toEqual([
    [429, "rate_limit.rpm_exceeded", null, slow.id],
    [401, "auth.api_key_revoked", null, gone.id],
    [400, "request.invalid_request", model, one.id],
    [400, "model.unknown", null, one.id],
    [400, "model.unknown", "no-such-model", one.id],
  ])
  expect(counts).toContainEqual({ code: "model.unknown", calls: 2, last_hour: expect.any(String) })
  expect(Date.now() - Date.parse(data[0]?.refused_at ?? "")).toBeLessThan(60_000)
  const [row] = (await whenKept(poor, 1)).data
  expect(row).toMatchObject({ status: 402, request_id: broke.request_id, hint: expect.stringContaining("Top up") })
  const rows = await gateway.sql`select * from refused_calls`
  expect(JSON.stringify(rows)).not.toContain("secret prompt")

  const found = await gateway.dashboard(person, `/usage/refused/${made[0]?.request_id}`)
  expect(await found.json()).toMatchObject({ code: "model.unknown", model: "no-such-model" })
  expect((await gateway.dashboard(poor, `/usage/refused/${made[0]?.request_id}`)).status).toBe(404)
  expect((await listed(person, `?key_id=${slow.id}`)).data).toHaveLength(1)
  expect((await listed(person, "?error_code=model.unknown&limit=1")).next_cursor).not.toBeNull()
  expect((await listed(person, "?to=2026-01-01")).counts).toEqual([])
  const [last, ...before] = data
  const since = `?from=${last?.refused_at}`
  expect((await listed(person, since)).data).toEqual(data.slice(0, 1))
  expect((await listed(person, `?to=${last?.refused_at}`)).data).toEqual(before)
  expect(
    (await (await gateway.dashboard(person, `/usage/refused/export.csv${since}`)).text()).split("\r\n"),
  ).toHaveLength(3)
  const ofDays = await gateway.dashboard(person, "/usage/refused/export.csv?from=2026-11-01&to=2026-11-30")
  expect(ofDays.headers.get("content-disposition")).toContain('"loket-refused-2026-11-01-to-2026-11-30.csv"')
  const csv = await (await gateway.dashboard(person, "/usage/refused/export.csv?error_code=model.unknown")).text()
  expect(csv.split("\r\n")).toHaveLength(4)
  expect(csv).toContain(made[0]?.request_id ?? "none")
})

test("a refused call has a line in the log, which names who was refused what and why", async () => {
  const poor = await gateway.person(0)
  const { key, id } = await gateway.key(poor)
  const { request_id } = await refuse(key, { messages })
  const line = lines.find((text) => text.includes(request_id)) ?? "{}"
  expect(JSON.parse(line)).toMatchObject({
    level: "info",
    event: "call refused",
    request_id,
    account_id: poor.accountId,
    key_id: id,
    endpoint: "chat",
    model,
    error_code: "billing.insufficient_balance",
  })
})

test("a call that was forwarded, and an unknown key, leave no row", async () => {
  const person = await gateway.person(100_000)
  const { key, id } = await gateway.key(person)
  const failing = await gateway.model({ format: "chat", script: "status=500" })
  await (await gateway.post("/v1/chat/completions", key, { model: failing, max_tokens: 16, messages })).text()
  await (await gateway.post("/v1/chat/completions", `${key.slice(0, -1)}x`, { model, max_tokens: 16, messages })).text()
  await refuse(key, { model: "none", messages })
  const { data, counts } = await whenKept(person, 1)
  expect(data.map(({ key_id, code }) => [key_id, code])).toEqual([[id, "model.unknown"]])
  expect(counts).toHaveLength(1)
})

test("who looks is told once for a time of writing", async () => {
  const person = await gateway.person(0)
  const { key } = await gateway.key(person)
  const events = await gateway.dashboard(person, "/events")
  const reader = (events.body as ReadableStream<Uint8Array>).getReader()
  const decoder = new TextDecoder()
  for (let time = 0; time < 30; time++) await refuse(key, { messages })
  let heard = ""
  while (!heard.includes("event: refused")) heard += decoder.decode((await reader.read()).value, { stream: true })
  const { data, counts } = await whenKept(person, 10)
  expect(data.length).toBeLessThanOrEqual(20)
  expect(heard.split("event: refused").length).toBeLessThan(5)
  await reader.cancel()
  expect(counts[0]?.code).toBe("billing.insufficient_balance")
})

test("so many rows a day of an account, from all processes together; counts add up, and old and deleted ones go", async () => {
  await using database = await openTestDatabase()
  const { db, sql } = database
  const [accountId, id] = ["acc_flood", "key_flood"]
  await sql`insert into accounts (id, email, password_hash) values (${accountId}, 'flood@example.test', 'x')`
  await sql`
    insert into api_keys (id, account_id, name, key_hash, prefix, last4)
    values (${id}, ${accountId}, 'a key', sha256('flood'::bytea), 'sk-loket-flood', 'last')`
  const now = Date.now()
  const hour = Math.floor(now / 3_600_000)
  const call = (at: number): RefusedCall => ({
    requestId: newRequestId(at),
    accountId,
    keyId: id,
    at,
    endpoint: "chat",
    model: undefined,
    code: "model.unknown",
  })
  const dayBefore = firstRequestId(now - 86_400_000)
  const calls = (count: number) => [{ accountId, code: "model.unknown", hour, calls: count }]
  const [one, other] = ["proc_one", "proc_other"].map((processId) =>
    refusedCallStore(db, { processId, tells: false, mostADay: 5 }),
  ) as [ReturnType<typeof refusedCallStore>, ReturnType<typeof refusedCallStore>]
  const first = [call(now), call(now), call(now)]
  await one.keep(first, calls(3), dayBefore)
  await one.keep(first, calls(3), dayBefore)
  await other.keep([call(now), call(now), call(now)], calls(40), dayBefore)
  const kept = () => sql`select 1 from refused_calls where account_id = ${accountId}`
  expect(await kept()).toHaveLength(5)
  expect(await one.counts(accountId, undefined, undefined)).toMatchObject([{ calls: 43 }])
  await one.keep([call(now - 2 * 86_400_000)], calls(3), dayBefore)
  expect(await one.removeOld(firstRequestId(now - 86_400_000))).toBeGreaterThanOrEqual(0)
  await sql`
    update refused_counts set hour = hour - interval '8 days' where account_id = ${accountId} and process_id = 'proc_other'`
  expect(await one.removeOld(firstRequestId(now + 1))).toBeGreaterThanOrEqual(6)
  expect(await kept()).toHaveLength(0)
  expect(await one.counts(accountId, undefined, undefined)).toMatchObject([{ calls: 3 }])
  const own = refusedCallStore(db, { processId: "proc_one", tells: false })
  const flood = Array.from({ length: 998 }, () => call(now))
  await own.keep(flood, calls(998), dayBefore)
  expect(await kept()).toHaveLength(998)
  await own.keep([call(now), call(now), call(now)], calls(1_001), dayBefore)
  await own.keep([call(now)], calls(1_002), dayBefore)
  expect(await kept()).toHaveLength(1_000)
  expect(await one.counts(accountId, undefined, undefined)).toMatchObject([{ calls: 1_002 }])
  await accountStore(db).delete(accountId)
  await one.keep([call(now)], calls(10), dayBefore)
  expect(await kept()).toHaveLength(0)
  expect(await one.counts(accountId, undefined, undefined)).toEqual([])
})
