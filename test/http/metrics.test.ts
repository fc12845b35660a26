import { afterAll, beforeAll, expect, test } from "bun:test"
import { Metrics } from "../../src/http/metrics.ts"
import { CombinedMetrics } from "../../src/workers/worker-process.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"

let gateway: TestGateway
let person: Person
let key: string

beforeAll(async () => {
  gateway = await startTestGateway({ env: { METRICS_PORT: "0", DATABASE_CONNECTIONS: "10" } })
  person = await gateway.person(100_000)
  key = (await gateway.key(person)).key
})
afterAll(() => gateway[Symbol.asyncDispose]())

const metrics = async () => await (await fetch(gateway.server.metricsUrl ?? "")).text()

/** The value of one series; labels in any order. */
async function value(name: string, labels: Readonly<Record<string, string>> = {}): Promise<number | undefined> {
  return valueIn(await metrics(), name, labels)
}

function valueIn(scrape: string, name: string, labels: Readonly<Record<string, string>> = {}): number | undefined {
  const wanted = Object.entries(labels).map(([label, text]) => `${label}="${text}"`)
  for (const line of scrape.split("\n")) {
    const [, series, found, number] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? []
    if (series === name && wanted.every((label) => found?.split(",").includes(label))) return Number(number)
  }
  return undefined
}

const ask = async (model: string) => {
  const response = await gateway.post("/v1/chat/completions", key, {
    model,
    messages: [{ role: "user", content: "Hello" }],
  })
  await response.text()
  return response
}

test("the numbers are served on their own port, and not on the gateway's", async () => {
  const response = await fetch(gateway.server.metricsUrl ?? "")
  expect(response.status).toBe(200)
  expect(response.headers.get("content-type")).toStartWith("text/plain; version=0.0.4")
  const elsewhere = await fetch(`${gateway.url}/metrics`)
  expect(elsewhere.status).toBe(404)
  expect((await fetch(new URL("/", gateway.server.metricsUrl))).status).toBe(404)
})

const beside = (path: string) => fetch(new URL(path, gateway.server.metricsUrl))

test("whoever asks after this very process is answered on the same port", async () => {
  expect(await (await beside("/healthz")).json()).toEqual({ status: "ok" })
  const ready = await beside("/readyz")
  expect(ready.status).toBe(200)
  expect(await ready.json()).toEqual({ status: "ready", database: true, ledger: true, draining: false })
})

test("members of pools are told with their calls, and whether they are asked", async () => {
  const script = "fault=status&status=500"
  const model = await gateway.model({
    format: "chat",
    upstreams: ["good", `bad?${script}`].map((name) => ({ provider: "simulated", format: "chat", model: name })),
  })
  const of = (member: string) => ({ model, member: `simulated/default/${member}` })
  const bad = of(`bad?${script}`)
  for (let count = 0; count < 3; count++) {
    const other = (await gateway.key(person)).key
    await (
      await gateway.post("/v1/chat/completions", other, { model, messages: [{ role: "user", content: "Hi" }] })
    ).text()
  }
  expect(await value("loket_member_well", of("good"))).toBe(1)
  expect(await value("loket_member_under_way", of("good"))).toBe(0)
  expect(await value("loket_member_tries_total", { ...of("good"), outcome: "answered" })).toBe(3)
  const failed = (await value("loket_member_tries_total", { ...bad, outcome: "failed" })) ?? 0
  // Three failures within the window are what opens a circuit.
  expect(await value("loket_member_well", bad)).toBe(failed >= 3 ? 0 : 1)
  await gateway.sql`insert into member_settings (member, state) values (${bad.member}, 'disabled')`
  await gateway.server.refreshCatalogue()
  expect(await value("loket_member_well", bad)).toBeUndefined()
  expect(await value("loket_member_tries_total", { ...bad, outcome: "failed" })).toBe(failed)
  await gateway.model({ format: "chat", model, upstreams: [{ provider: "simulated", format: "chat", model: "good" }] })
  expect(await value("loket_member_tries_total", { ...of("good"), outcome: "answered" })).toBe(3)
  expect(await value("loket_member_tries_total", { ...bad, outcome: "failed" })).toBeUndefined()
})

test("of several workers' members one is held back where no worker asks it, as the alert rules read it", async () => {
  const one = (await gateway.server.metrics()) as { name: string; values: { value: number }[] }[]
  const other = one.map(({ name, values, ...rest }) => {
    const isTold = name === "loket_member_well"
    return { ...rest, name, values: isTold ? values.map((each) => ({ ...each, value: 0 })) : values }
  })
  const workers = new CombinedMetrics(() => ({ wanted: 2, listening: 2 }))
  const good = { member: "simulated/default/good" }
  expect(valueIn(await workers.text([one, other]), "loket_member_well", good)).toBe(1)
  expect(valueIn(await workers.text([other, other]), "loket_member_well", good)).toBe(0)
})

test("one that is alone in its pool is asked whatever came of it, and is told so; retries that were refused are counted", async () => {
  const script = "fault=status&status=500"
  const model = await gateway.model({ format: "chat", script })
  for (let count = 0; count < 3; count++) expect((await ask(model)).status).toBe(502)
  expect(await value("loket_member_well", { model, member: `simulated/default/${model}?${script}` })).toBe(1)
  expect(await value("loket_retries_refused_total")).toBe(0)
})

test("a call that was sold under its cost is told by the member that answered", async () => {
  const cost = { currency: "IDR", input: "9000000", output: "0", cache_read: "0", cache_write: "0" }
  const model = await gateway.model({ format: "chat", cost, script: "input=10&output=4" })
  expect((await ask(model)).status).toBe(200)
  const member = `simulated/default/${model}?input=10&output=4`
  expect(await value("loket_under_cost_total", { model, member })).toBe(1)
})

test("a finished call is counted with its tokens, its charge and its times", async () => {
  const model = await gateway.model({ format: "chat", script: "input=100&cached=40&written=20&output=7" })
  expect((await ask(model)).status).toBe(200)
  expect(await value("loket_calls_total", { endpoint: "chat", model, status: "ok" })).toBe(1)
  expect(await value("loket_tokens_total", { model, bucket: "input" })).toBe(100)
  expect(await value("loket_tokens_total", { model, bucket: "output" })).toBe(7)
  expect(await value("loket_tokens_total", { model, bucket: "cache_read" })).toBe(40)
  expect(await value("loket_tokens_total", { model, bucket: "cache_write" })).toBe(20)
  expect(await value("loket_charge_micro_total", { model })).toBe(100 * 1_000 + 40 * 100 + 20 * 1_250 + 7 * 5_000)
  expect(await value("loket_absorbed_micro_total", { model })).toBe(0)
  expect(await value("loket_duration_seconds_count", { model })).toBe(1)
})

test("an answer whose usage cannot be read is flagged", async () => {
  const model = await gateway.model({ format: "chat", script: "usage=none" })
  await ask(model)
  expect(await value("loket_calls_total", { model, status: "usage_missing" })).toBe(1)
  expect(await value("loket_flagged_total", { model, status: "usage_missing" })).toBe(1)
})

test("a backend that refuses our own credentials raises an alert", async () => {
  const model = await gateway.model({ format: "chat", script: "fault=status&status=401" })
  expect((await ask(model)).status).toBe(502)
  expect(await value("loket_upstream_alerts_total", { model })).toBe(1)
  expect(await value("loket_log_events_total", { level: "error", event: "backend needs attention" })).toBe(1)
})

test("refused calls are counted by the code of their error", async () => {
  const before = (await value("loket_http_responses_total", { status: "400", code: "model.unknown" })) ?? 0
  await ask("no-such-model")
  expect(await value("loket_http_responses_total", { status: "400", code: "model.unknown" })).toBe(before + 1)
})

test("a call under way shows in flight and in its model's slots, and is gone when it has ended", async () => {
  const model = await gateway.model({ format: "chat", max_concurrency: 1, script: "ttft=1500&output=3" })
  const running = ask(model)
  const waiting = ask(model)
  for (let tries = 0; (await value("loket_slots", { of: model, state: "waiting" })) !== 1; tries++) {
    if (tries === 100) throw new Error("nobody waited")
    await Bun.sleep(5)
  }
  expect(await value("loket_slots", { of: model, state: "taken" })).toBe(1)
  expect(await value("loket_slots", { of: model, state: "cap" })).toBe(1)
  expect(await value("loket_in_flight")).toBeGreaterThanOrEqual(1)
  await Promise.all([running, waiting])
  expect(await value("loket_slots", { of: model, state: "taken" })).toBe(0)
  expect(await value("loket_in_flight")).toBe(0)
})

test("the ledger, the mailboxes and the process tell of themselves", async () => {
  expect(await value("loket_ledger_backlog")).toBeNumber()
  expect(await value("loket_ledger_lag_seconds")).toBeNumber()
  for (const kind of ["key", "account", "model", "gate", "ledger"]) {
    expect(await value("loket_mailbox_depth", { kind })).toBe(0)
    expect(await value("loket_mailbox_age_seconds", { kind })).toBe(0)
  }
  expect(await value("loket_actors", { kind: "account" })).toBe(1)
  expect(await value("loket_process_memory_bytes", { kind: "resident" })).toBeGreaterThan(1e6)
})

/** How many timers were later than 0.25 s. */
async function late(): Promise<number> {
  // Of one scrape: a timer fires ten times a second.
  const scrape = await metrics()
  const inTime = valueIn(scrape, "loket_event_loop_delay_seconds_bucket", { le: "0.25" })
  return (valueIn(scrape, "loket_event_loop_delay_seconds_count") ?? 0) - (inTime ?? 0)
}

test("what holds the event loop up shows", async () => {
  const before = await late()
  Bun.sleepSync(600)
  await Bun.sleep(150)
  expect(await late()).toBeGreaterThan(before)
})

test("the pools tell of their connections, and of nobody who waited where nobody did", async () => {
  expect(await value("loket_database_pool", { pool: "shared", state: "limit" })).toBe(10)
  expect(await value("loket_database_pool", { pool: "ledger", state: "waiting" })).toBe(0)
  for (const pool of ["shared", "ledger"]) {
    expect(await value("loket_database_pool_wait_seconds_total", { pool })).toBeNumber()
    expect(await value("loket_database_pool_refusals_total", { pool })).toBe(0)
  }
  expect(await value("loket_withdrawals_kept")).toBe(0)
})

test("nothing is told by key or account", async () => {
  const text = await metrics()
  expect(text).not.toContain(person.accountId)
  expect(text).not.toContain("key_")
})

test("rounds of what is kept no longer are counted by what they removed, and dated also where that was nothing", async () => {
  const own = new Metrics()
  const lines = async () =>
    (await (await own.respond(new Request("http://x/metrics"))).text())
      .split("\n")
      .filter((line) => line.startsWith("loket_retention"))
  const none = "loket_retention_success_timestamp_seconds 0"
  expect(await lines()).toEqual([none])
  own.keptNoLonger({ sessions: 3, outbox: 1 })
  own.keptNoLonger({ sessions: 2 })
  const [sessions, rows, at = ""] = await lines()
  expect([sessions, rows]).toEqual([
    'loket_retention_removed_rows_total{kind="sessions"} 5',
    'loket_retention_removed_rows_total{kind="outbox"} 1',
  ])
  expect(Date.now() / 1_000 - Number(at.split(" ")[1])).toBeLessThan(60)
})

const askAgain = async (content: string) => {
  const body = { model: "plain", messages: [{ role: "user", content }] }
  const response = await gateway.post("/v1/chat/completions", key, body, { headers: { "Idempotency-Key": "again" } })
  await response.text()
  return response.status
}

test("calls that repeat another one are told by what became of them, and what is kept of answers", async () => {
  const outcomes = () =>
    Promise.all(["attached", "replayed", "refused"].map((outcome) => value("loket_repeats_total", { outcome })))
  expect(await outcomes()).toEqual([0, 0, 0])
  expect(await value("loket_kept_answer_bytes", { state: "held" })).toBe(0)
  expect([await askAgain("one"), await askAgain("one"), await askAgain("one"), await askAgain("another")]).toEqual([
    200, 200, 200, 409,
  ])
  expect(await outcomes()).toEqual([0, 2, 1])
  const [held, limit] = await Promise.all(["held", "limit"].map((state) => value("loket_kept_answer_bytes", { state })))
  expect(held).toBeGreaterThan(0)
  expect(limit).toBeGreaterThanOrEqual(96 * 1024 * 1024)
})
