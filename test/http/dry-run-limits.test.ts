/** A dry run foretells ceilings of ten minutes, and runs: its first error is the one that the call is then told. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { MAX_RUNS_OPEN } from "../../src/store/runs.ts"
import { runIdOf } from "../../src/gateway/runs.ts"
import type { DryRun } from "../../src/http/dry-run-shape.ts"
import { callsOf, eventually } from "../contract/calling.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"

let gateway: TestGateway
let model: string
let rich: Person
let poor: Person

/** Each token of an answer costs Rp 50, and the input nothing: sixteen are the least. */
const rates = { input_micro: 0, cache_read_micro: 0, cache_write_micro: 0, output_micro: 50_000_000 }
const RP = 1_000_000
const LEAST = 800 * RP
const MIN_RP = 800

beforeAll(async () => {
  gateway = await startTestGateway({ env: { DRAIN_LEFT_MS: "50" } })
  model = await gateway.model({ format: "chat", script: "input=1&output=16", ...rates })
  rich = await gateway.person(1_000_000)
  poor = await gateway.person()
})
afterAll(() => gateway[Symbol.asyncDispose]())

const post = (by: string, headers: Record<string, string> = {}, of = model) =>
  gateway.post(
    "/v1/chat/completions",
    by,
    { model: of, max_tokens: 16, messages: [{ role: "user", content: "Hello" }] },
    { headers },
  )
async function dry(by: string, headers: Record<string, string> = {}, of = model): Promise<DryRun> {
  const answer = await post(by, { ...headers, "X-Dry-Run": "true" }, of)
  expect(answer.status).toBe(200)
  return (await answer.json()) as DryRun
}
async function told(by: string, headers: Record<string, string> = {}): Promise<[string | null, number]> {
  const answer = await post(by, headers)
  await answer.text()
  return [answer.headers.get("x-error-code"), answer.status]
}
async function childOf(keyId: string): Promise<string> {
  const token = await gateway.dashboard(rich, `/keys/${keyId}/tokens`, { method: "POST", body: `{"name":"class"}` })
  const headers = { Authorization: `Bearer ${((await token.json()) as { token: string }).token}` }
  const child = await fetch(`${gateway.url}/v1/keys`, { method: "POST", headers, body: `{"name":"pupil"}` })
  expect(child.status).toBe(201)
  return ((await child.json()) as { key: string }).key
}
async function put(person: Person, path: string, body: object): Promise<void> {
  const answer = await gateway.dashboard(person, path, { method: "PUT", body: JSON.stringify(body) })
  expect(answer.status).toBe(200)
}
const ceilingOf = (person: Person, keyId: string, ceiling: number | null) =>
  put(person, `/keys/${keyId}/breaker`, { ceiling_micro: ceiling, action: "stop" })
const ceilingOfAccount = (person: Person, ceiling: number | null) =>
  put(person, "/account/breaker", { ceiling_micro: ceiling, action: "stop", factor: null })
/** As if so much had been charged to the purse so many minutes ago. */
const spend = (purse: string, amount: number, minutesAgo: number) => gateway.sql`
  insert into spending_minutes (purse, minute, spent_micro)
  values (${purse}, date_trunc('minute', clock_timestamp()) - make_interval(mins => ${minutesAgo}), ${amount})
  on conflict (purse, minute) do update set spent_micro = excluded.spent_micro`

describe("a ceiling of ten minutes", () => {
  test.each([
    ["is enough", LEAST, null],
    ["is one micro too little, and pauses the key", LEAST - 1, "quota.key_paused"],
  ] as const)("of which what is left %s", async (_, left, code) => {
    const { id, key } = await gateway.key(rich)
    await ceilingOf(rich, id, 2_000 * RP + left)
    await spend(`brk_${rich.accountId}.${id}`, 2_000 * RP, 3)
    const found = await dry(key)
    expect(found.refused_by?.code ?? null).toBe(code)
    expect(found.limits.ten_minutes).toEqual([
      {
        of: "key",
        ceiling_micro: 2_000 * RP + left,
        spent_micro: 2_000 * RP,
        held_micro: 0,
        remaining_micro: left,
        resets_in_s: expect.any(Number),
      },
    ])
    const wait = found.limits.ten_minutes?.[0]?.resets_in_s ?? 0
    // It counts until ten minutes after the end of its minute.
    expect(wait).toBeGreaterThan(6 * 60)
    expect(wait).toBeLessThanOrEqual(8 * 60)
    expect(found.cost?.hold_micro).toBe(code === null ? LEAST : null)
    // Nobody was paused by asking.
    expect((await dry(key)).limits.paused).toBeUndefined()
    expect(await told(key)).toEqual([code, code === null ? 200 : 403])
    if (code === null) return
    const after = await dry(key)
    expect([after.refused_by?.code, after.limits.paused]).toEqual([code, { until: null }])
  })

  test("of the account is told beside the key's, and a pause that ends says when", async () => {
    const person = await gateway.person(10_000)
    const { id, key } = await gateway.key(person)
    await ceilingOf(person, id, 5_000 * RP)
    await put(person, "/account/breaker", { ceiling_micro: LEAST - 1, action: "stop", factor: null, pause_minutes: 5 })
    const found = await dry(key)
    expect(found.limits.ten_minutes?.map(({ of, remaining_micro: left }) => [of, left])).toEqual([
      ["key", 5_000 * RP],
      ["account", LEAST - 1],
    ])
    expect(found.refused_by?.code).toBe("quota.key_paused")
    expect(await told(key)).toEqual(["quota.key_paused", 403])
    const until = Date.parse((await dry(key)).limits.paused?.until ?? "")
    expect(until).toBeWithin(Date.now() + 60_000, Date.now() + 5 * 60_000 + 1_000)
  })

  test.concurrent.each(["calls", "calls of its children"])(
    "that %s under way hold refuses for a second, and pauses nobody",
    async (whose) => {
      const { id, key } = await gateway.key(rich)
      const caller = whose === "calls" ? key : await childOf(id)
      const slow = await gateway.model({ format: "chat", script: "input=1&output=16&ttft=9500", ...rates })
      await ceilingOf(rich, id, 2 * LEAST - 1)
      const underWay = post(caller, {}, slow).then((answer) => answer.text())
      await eventually(
        "not held",
        async () => (await dry(key)).limits.ten_minutes?.[0]?.held_micro ?? 0,
        (held) => held > 0,
      )
      const found = await dry(key)
      expect(found.limits.ten_minutes).toMatchObject([
        { spent_micro: 0, held_micro: LEAST, remaining_micro: LEAST - 1 },
      ])
      expect([found.refused_by?.code, found.refused_by?.retry_after_s]).toEqual(["gateway.capacity", 1])
      expect(await told(key)).toEqual(["gateway.capacity", 429])
      await underWay
      expect(callsOf(gateway, slow)).toHaveLength(1)
    },
  )

  test("that only warns is none", async () => {
    const { id, key } = await gateway.key(rich)
    await put(rich, `/keys/${id}/breaker`, { ceiling_micro: 1, action: "warn" })
    const { refused_by: refusal, limits } = await dry(key)
    expect([refusal, limits.ten_minutes]).toEqual([null, undefined])
  })
})

const openRun = async (person: Person, keyId: string, name: string, budget: number) => {
  const body = JSON.stringify({ key_id: keyId, name, budget_micro: budget })
  const answer = await gateway.dashboard(person, "/runs", { method: "POST", body })
  expect(answer.status).toBe(201)
}
const endRun = (keyId: string, name: string) =>
  gateway.sql`update runs set ends_at = now(), created_at = now() - interval '1 day' where id = ${runIdOf(keyId, name)}`

test("of a model with more calls than slots, since it has fewer, it says who waits; what they hold is not there to spend", async () => {
  const person = await gateway.person(10_000)
  const slow = await gateway.model({ format: "chat", script: "ttft=60000", max_concurrency: 2, ...rates })
  const { key } = await gateway.key(person)
  const left = new AbortController()
  using _ = { [Symbol.dispose]: () => left.abort() }
  const body = { model: slow, max_tokens: 16, messages: [{ role: "user", content: "Hello" }] }
  const call = () => void gateway.post("/v1/chat/completions", key, body, { signal: left.signal }).catch(() => {})
  call()
  call()
  await eventually(
    "not forwarded",
    () => callsOf(gateway, slow).length,
    (calls) => calls === 2,
  )
  await gateway.sql`update models set max_concurrency = 1 where model = ${slow}`
  await gateway.refreshCatalogue()
  const full = { concurrency: 1, free: 0, waiting: 0, would_wait: true }
  expect((await dry(key, {}, slow)).limits.model).toEqual(full)
  call()
  const { limits } = await eventually(
    "nobody waits, or the others hold nothing",
    // Of one key only sixty are answered.
    async () => dry((await gateway.key(person)).key, {}, slow),
    ({ limits: { model: slots, balance } }) =>
      slots?.waiting !== 0 && balance?.held_micro !== LEAST && balance?.held_micro !== 0,
  )
  expect(limits.model).toEqual({ ...full, waiting: 1 })
  expect(limits.balance).toEqual({
    balance_micro: 10_000 * RP,
    held_micro: 2 * LEAST,
    available_micro: 10_000 * RP - 2 * LEAST,
  })
})

test("a price that nobody could pay is foretold, and refused, by whoever has too little", async () => {
  const dearest = Number.MAX_SAFE_INTEGER
  const dear = await gateway.model({
    format: "chat",
    input_micro: dearest,
    output_micro: dearest,
    max_output_tokens: 2_147_483_647,
    context_window: null,
  })
  const ask = async (by: string, headers: Record<string, string> = {}) => {
    const { cost, refused_by } = await dry(by, headers, dear)
    expect(cost).toMatchObject({ least_micro: dearest, hold_micro: null, most_micro: dearest })
    expect(cost?.most_rp).toBe("9007199254.740991")
    const answer = await gateway.post(
      "/v1/chat/completions",
      by,
      { model: dear, messages: [{ role: "user", content: "Hello ".repeat(2_000) }] },
      { headers },
    )
    await answer.text()
    expect(answer.headers.get("x-error-code")).toBe(refused_by?.code ?? null)
    return refused_by?.code
  }
  const ceiling = await gateway.key(rich)
  await ceilingOf(rich, ceiling.id, 1_000 * RP)
  const budget = await gateway.key(rich, { spending_limit_micro: RP, spending_period: "total" })
  const plain = await gateway.key(rich)
  expect(await ask(budget.key)).toBe("quota.key_limit_exceeded")
  expect(await ask(plain.key, { "X-Run-Id": "dear", "X-Run-Budget-Rp": "1" })).toBe("quota.run_limit_exceeded")
  expect(await ask(ceiling.key)).toBe("quota.key_paused")
  expect(await ask(plain.key)).toBe("billing.insufficient_balance")
})

describe("a run", () => {
  test("is told as it is, or would be", async () => {
    const { id, key } = await gateway.key(rich)
    const fresh = await dry(key, { "X-Run-Id": "r", "X-Run-Budget-Rp": "900" })
    expect(fresh.limits.run).toEqual({
      status: "new",
      limit_micro: 900 * RP,
      remaining_micro: 900 * RP,
      ends_at: null,
    })
    await openRun(rich, id, "r", 900 * RP)
    await (await post(key, { "X-Run-Id": "r" })).text()
    const there = await dry(key, { "X-Run-Id": "r" })
    expect(there.limits.run).toMatchObject({ status: "open", remaining_micro: 100 * RP, ends_at: expect.any(String) })
    expect(there.refused_by?.code).toBe("quota.run_limit_exceeded")
  })

  test("that has ended says so", async () => {
    const { id, key } = await gateway.key(rich)
    await openRun(rich, id, "r", 900 * RP)
    await endRun(id, "r")
    const found = await dry(key, { "X-Run-Id": "r" })
    expect([found.limits.run?.status, found.refused_by?.code]).toEqual(["ended", "quota.run_limit_exceeded"])
  })

  test("more than an account may have would be refused, and one less would not", async () => {
    const person = await gateway.person(10_000)
    const { id, key } = await gateway.key(person)
    const fill = (count: number) => gateway.sql`
      insert into runs (id, account_id, key_id, name, budget_micro, created_at, ends_at)
      select 'run_' || ${id}::text || n, ${person.accountId}, ${id}, n::text, 1, now(), now() + interval '1 day'
      from generate_series(1, ${count}::int) n on conflict do nothing`
    const headers = { "X-Run-Id": "one-more", "X-Run-Budget-Rp": "900" }
    await fill(MAX_RUNS_OPEN - 1)
    expect((await dry(key, headers)).refused_by).toBeNull()
    await fill(MAX_RUNS_OPEN)
    const found = await dry(key, headers)
    expect([found.refused_by?.code, found.refused_by?.status]).toEqual(["quota.runs_exceeded", 402])
    expect(found.limits.run).toBeUndefined()
    expect(await told(key, headers)).toEqual(["quota.runs_exceeded", 402])
  })

  describe("and all other limits, in any state", () => {
    const amount = fc.constantFrom(LEAST - 1, LEAST, 2 * LEAST, 2 * LEAST + 1)
    const spending = fc.option(fc.record({ amount, minutesAgo: fc.constantFrom(0, 5, 9, 13) }), { nil: undefined })
    const ceiling = fc.option(amount, { nil: undefined })
    const states = fc.record({
      isPoor: fc.boolean(),
      budget: ceiling,
      ceiling,
      spent: spending,
      accountCeiling: ceiling,
      accountSpent: spending,
      run: fc.constantFrom("none", "unknown", "new", "same", "other", "ended", "silent"),
      runBudgetRp: fc.constantFrom(MIN_RP - 1, MIN_RP, 2 * MIN_RP),
    })
    type State = typeof states extends fc.Arbitrary<infer T> ? T : never

    async function enter(state: State): Promise<{ key: string; headers: Record<string, string> }> {
      const person = state.isPoor ? poor : rich
      const resumed = await gateway.dashboard(person, "/account/breaker/resume", { method: "POST" })
      expect(resumed.status).toBe(204)
      const limits = state.budget === undefined ? {} : { spending_limit_micro: state.budget, spending_period: "total" }
      const { id, key } = await gateway.key(person, limits)
      if (state.ceiling !== undefined) await ceilingOf(person, id, state.ceiling)
      await ceilingOfAccount(person, state.accountCeiling ?? null)
      const purse = `brk_${person.accountId}`
      if (state.spent) await spend(`${purse}.${id}`, state.spent.amount, state.spent.minutesAgo)
      if (state.accountSpent) await spend(purse, state.accountSpent.amount, state.accountSpent.minutesAgo)
      const { run, runBudgetRp: budget } = state
      if (run === "same" || run === "other" || run === "ended" || run === "silent") {
        await openRun(person, id, "r", budget * RP)
      }
      if (run === "ended") await endRun(id, "r")
      const says = run === "unknown" || run === "silent" ? undefined : run === "other" ? budget + 1 : budget
      const headers = {
        ...(run !== "none" && { "X-Run-Id": "r" }),
        ...(run !== "none" && says !== undefined && { "X-Run-Budget-Rp": String(says) }),
      }
      return { key, headers }
    }

    test("are foretold as the call then meets them", async () => {
      const met = new Set<string>()
      for (const state of fc.sample(states, { seed: 16, numRuns: 60 })) {
        const { key, headers } = await enter(state)
        const foretold = (await dry(key, headers)).refused_by
        const [code, status] = await told(key, headers)
        expect<object>({ state, code: foretold?.code ?? null, status: foretold?.status ?? 200 }).toEqual({
          state,
          code,
          status,
        })
        met.add(code ?? "passed")
      }
      expect([...met].sort()).toEqual([
        "billing.insufficient_balance",
        "passed",
        "quota.key_limit_exceeded",
        "quota.key_paused",
        "quota.run_limit_exceeded",
        "run.budget_mismatch",
        "run.unknown",
      ])
    })
  })
})
