import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { runIdOf } from "../../src/gateway/runs.ts"
import { type Person, startTestGateway, type TestGateway } from "./harness.ts"

let gateway: TestGateway
let person: Person
let key: { readonly id: string; readonly key: string }

beforeAll(async () => {
  gateway = await startTestGateway()
  person = await gateway.person(1_000_000)
  key = await gateway.key(person)
})
afterAll(() => gateway[Symbol.asyncDispose]())

const hello = [{ role: "user", content: "Hello" }]
const bodies = {
  chat: (model: string, more: object) => ({ model, max_tokens: 100, messages: hello, ...more }),
  messages: (model: string, more: object) => ({ model, max_tokens: 100, messages: hello, ...more }),
  responses: (model: string, more: object) => ({ model, max_output_tokens: 100, input: "Hello", ...more }),
}
const paths = { chat: "/v1/chat/completions", messages: "/v1/messages", responses: "/v1/responses" }
type Format = keyof typeof paths
const formats = ["chat", "messages", "responses"] as const

let names = 0
const newName = () => `run-${++names}`

interface Asked {
  readonly format?: Format
  readonly secret?: string
  readonly more?: object
}

const call = (
  model: string,
  headers: Record<string, string>,
  { format = "chat", secret = key.key, more = {} }: Asked = {},
) => gateway.post(paths[format], secret, bodies[format](model, more), { headers })

interface Told {
  readonly status: number
  readonly code: string | null
  readonly costMicro: number
  readonly remaining: string | null
}

async function told(answering: Promise<Response>): Promise<Told> {
  const answer = await answering
  const { headers, status } = answer
  await answer.text()
  return {
    status,
    code: headers.get("x-error-code"),
    costMicro: Math.round(Number(headers.get("x-cost-rp") ?? 0) * 1_000_000),
    remaining: headers.get("x-run-remaining-micro"),
  }
}

/** Rates of the tests' models: 1,000 and 5,000 micro-rupiah. */
const cost = (input: number, output: number) => input * 1_000 + output * 5_000

describe.each(formats)("calls of a run on %s", (format) => {
  test.each([false, true])("spend its budget and no more (stream: %p)", async (stream) => {
    const model = await gateway.model({ format, script: "input=100&output=60" })
    const name = newName()
    const first = await call(model, { "X-Run-Id": name, "X-Run-Budget-Rp": "1" }, { format, more: { stream } })
    expect(first.status).toBe(200)
    await first.text()
    const { record, calls } = await spent(name)
    expect([record, calls]).toEqual([cost(100, 60), cost(100, 60)])
    // Half of what is left, 0.6 rupiah, is held, and so on down to where nothing more can be asked.
    const codes: (string | null)[] = []
    for (let n = 0; n < 12; n++)
      codes.push((await told(call(model, { "X-Run-Id": name }, { format, more: { stream } }))).code)
    expect(codes.at(-1)).toBe("quota.run_limit_exceeded")
    const after = await spent(name)
    expect(after.record).toBe(after.calls)
    expect(after.record).toBeLessThanOrEqual(1_000_000)
    expect(after.record).toBeGreaterThan(900_000)
  })
})

async function spent(name: string, keyId = key.id) {
  const runId = runIdOf(keyId, name)
  const [row] = await gateway.sql<{ record: bigint; calls: bigint }[]>`
    select coalesce((select spent_micro from key_spend where key_id = ${runId}), 0) as record,
      coalesce((select sum(charge_micro)::bigint from usage where run_id = ${runId}), 0) as calls`
  return { record: Number(row?.record), calls: Number(row?.calls) }
}

describe("what a call says of its run", () => {
  const refusals: readonly (readonly [what: string, headers: Record<string, string>, code: string])[] = [
    ["no name", { "X-Run-Budget-Rp": "10" }, "request.invalid"],
    ["an empty name", { "X-Run-Id": "", "X-Run-Budget-Rp": "10" }, "request.invalid"],
    ["an empty name alone", { "X-Run-Id": "" }, "request.invalid"],
    ["a name of 65 characters", { "X-Run-Id": "a".repeat(65), "X-Run-Budget-Rp": "10" }, "request.invalid"],
    ["a name that begins with a dot", { "X-Run-Id": "..", "X-Run-Budget-Rp": "10" }, "request.invalid"],
    ["a name with a slash", { "X-Run-Id": "a/b", "X-Run-Budget-Rp": "10" }, "request.invalid"],
    ["a name with a space", { "X-Run-Id": "a b", "X-Run-Budget-Rp": "10" }, "request.invalid"],
    ["two names", { "X-Run-Id": "a, b", "X-Run-Budget-Rp": "10" }, "request.invalid"],
    ...[
      "",
      "0",
      "00",
      "-1",
      "+1",
      "1.5",
      "1,000",
      "1e3",
      "0x10",
      "ten",
      "1 000",
      "1000000001",
      "99999999999999999999",
    ].map(
      (budget) =>
        [`a budget of '${budget}'`, { "X-Run-Id": "nonsense", "X-Run-Budget-Rp": budget }, "request.invalid"] as const,
    ),
    ["no budget for a name that is not there", { "X-Run-Id": "nobody" }, "run.unknown"],
  ]
  test.each(refusals)("%s is refused, and nothing is held or made", async (_, headers, code) => {
    const answer = await told(call("plain", headers))
    expect(answer).toMatchObject({ status: 400, code })
    expect((await gateway.balance(person)).held_micro).toBe(0)
    const [row] = await gateway.sql<
      { runs: number }[]
    >`select count(*)::int as runs from runs where name in ('nonsense', 'nobody', 'a')`
    expect(row?.runs).toBe(0)
  })

  test("a name of 64 characters, of all that may be in one, and the largest budget are taken", async () => {
    const name = `0${"Az9._:-".repeat(9)}`
    expect(name.length).toBe(64)
    const answer = await told(call("plain", { "X-Run-Id": name, "X-Run-Budget-Rp": "1000000000" }))
    expect(answer.status).toBe(200)
    expect(await told(call("plain", { "X-Run-Id": "x", "X-Run-Budget-Rp": "1" }))).toMatchObject({ status: 200 })
  })

  test("the first call fixes the budget: another one is refused, the same one and none are not", async () => {
    const name = newName()
    expect((await told(call("plain", { "X-Run-Id": name, "X-Run-Budget-Rp": "100" }))).status).toBe(200)
    for (const other of ["99", "101"]) {
      const refused = await call("plain", { "X-Run-Id": name, "X-Run-Budget-Rp": other })
      expect([refused.status, refused.headers.get("x-error-code")]).toEqual([400, "run.budget_mismatch"])
      expect(await refused.text()).toContain("Rp 100")
    }
    expect((await told(call("plain", { "X-Run-Id": name, "X-Run-Budget-Rp": "100" }))).status).toBe(200)
    expect((await told(call("plain", { "X-Run-Id": name }))).status).toBe(200)
  })

  test("a call that its account cannot pay makes no run, and the run is there to be made when there is money", async () => {
    const poor = await gateway.person()
    const { id, key: secret } = await gateway.key(poor)
    const name = newName()
    const headers = { "X-Run-Id": name, "X-Run-Budget-Rp": "100" }
    const refused = { status: 402, code: "billing.insufficient_balance" }
    expect(await told(call("plain", headers, { secret }))).toMatchObject(refused)
    expect(await told(call("plain", headers, { secret }))).toMatchObject(refused)
    expect(await gateway.sql`select from runs where account_id = ${poor.accountId}`).toHaveLength(0)
    await gateway.topUp(poor, 10_000)
    expect(await told(call("plain", headers, { secret }))).toMatchObject({ status: 200 })
    expect((await spent(name, id)).record).toBeGreaterThan(0)
  })

  test("a first call that neither its ceiling nor its account can pay is refused as it is in a run that is there, and makes none", async () => {
    const poor = await gateway.person()
    const ceiling = { breaker_ceiling_micro: 1_000, breaker_action: "stop", breaker_pause_minutes: 15 }
    const { key: secret } = await gateway.key(poor, ceiling)
    const headers = { "X-Run-Id": newName(), "X-Run-Budget-Rp": "100" }
    const asked = await call("plain", { ...headers, "X-Dry-Run": "true" }, { secret })
    expect(await asked.json()).toMatchObject({ refused_by: { code: "quota.key_paused" } })
    expect(await told(call("plain", headers, { secret }))).toMatchObject({ status: 403, code: "quota.key_paused" })
    expect(await gateway.sql`select from runs where account_id = ${poor.accountId}`).toHaveLength(0)
  })

  test("a run that cannot pay its first call is there with its budget and a receipt, where the account could pay it", async () => {
    const more = { messages: [{ role: "user", content: "Hello ".repeat(3_000) }] }
    const refused = { status: 402, code: "quota.run_limit_exceeded" }
    const name = newName()
    const headers = { "X-Run-Id": name, "X-Run-Budget-Rp": "1" }
    expect(await told(call("plain", headers, { more }))).toMatchObject(refused)
    const receipt = await fetch(`${gateway.url}/v1/runs/${name}`, { headers: { "x-api-key": key.key } })
    expect(await receipt.json()).toMatchObject({ name, calls: 0, spent_micro: 0, budget_micro: 1_000_000 })
    const poor = await gateway.person()
    const { key: secret } = await gateway.key(poor)
    expect(await told(call("plain", headers, { secret, more }))).toMatchObject(refused)
    expect(await gateway.sql`select from runs where account_id = ${poor.accountId}`).toHaveLength(0)
  })

  test("of first calls that come at once with two budgets one budget is taken, and the others are refused", async () => {
    const name = newName()
    const budgets = Array.from({ length: 12 }, (_, index) => (index % 2 === 0 ? "100" : "200"))
    const answers = await Promise.all(
      budgets.map((budget) => told(call("plain", { "X-Run-Id": name, "X-Run-Budget-Rp": budget }))),
    )
    const [row] = await gateway.sql<
      { budget: bigint }[]
    >`select budget_micro as budget from runs where id = ${runIdOf(key.id, name)}`
    const taken = String(Number(row?.budget) / 1_000_000)
    for (const [index, answer] of answers.entries()) {
      expect(answer).toMatchObject(
        budgets[index] === taken ? { status: 200 } : { status: 400, code: "run.budget_mismatch" },
      )
    }
  })

  test("a run is of its key: to other keys, of the same account or another, it is not there", async () => {
    const name = newName()
    expect((await told(call("plain", { "X-Run-Id": name, "X-Run-Budget-Rp": "100" }))).status).toBe(200)
    const stranger = await gateway.person(10_000)
    for (const { key: secret } of [await gateway.key(person), await gateway.key(stranger)]) {
      expect(await told(call("plain", { "X-Run-Id": name }, { secret }))).toMatchObject({
        status: 400,
        code: "run.unknown",
      })
      expect(await told(call("plain", { "X-Run-Id": name, "X-Run-Budget-Rp": "7" }, { secret }))).toMatchObject({
        status: 200,
      })
    }
  })
})

describe("a run's end", () => {
  test("is at the instant, whatever is left; a refusal is not worth a retry, and other runs go on", async () => {
    const name = newName()
    expect((await told(call("plain", { "X-Run-Id": name, "X-Run-Budget-Rp": "100" }))).status).toBe(200)
    const [row] = await gateway.sql<{ lasts: number }[]>`
      select extract(epoch from ends_at - created_at)::int as lasts from runs where id = ${runIdOf(key.id, name)}`
    expect(row?.lasts).toBe(7 * 24 * 60 * 60)

    const endsAt = new Date(Date.now() + 4_000).toISOString()
    const made = await make({ name: newName(), budget_micro: 100_000_000, ends_at: endsAt })
    expect(made.status).toBe(201)
    const { name: short } = (await made.json()) as { name: string }
    expect((await told(call("plain", { "X-Run-Id": short }))).status).toBe(200)
    while (Date.now() < Date.parse(endsAt)) await Bun.sleep(20)
    const refused = await call("plain", { "X-Run-Id": short })
    expect([refused.status, refused.headers.get("x-error-code")]).toEqual([402, "quota.run_limit_exceeded"])
    expect(refused.headers.get("x-should-retry")).toBe("false")
    expect(await refused.json()).toMatchObject({ error: expect.stringContaining("ended"), retryable: false })
    expect((await told(call("plain", { "X-Run-Id": name }))).status).toBe(200)
  })
})

const endBy = {
  "its key, by its name": (name: string) => endByKey(name),
  "its key, by its id": (name: string) => endByKey(runIdOf(key.id, name)),
  "its owner": (name: string) =>
    gateway.dashboard(person, `/runs/${runIdOf(key.id, name)}/end`, { method: "POST", body: "{}" }),
} as const
const endByKey = (named: string, secret = key.key) =>
  fetch(`${gateway.url}/v1/runs/${named}/end`, { method: "POST", headers: { authorization: `Bearer ${secret}` } })

describe("a run that is ended before its time", () => {
  test.each(Object.entries(endBy))("by %s refuses its next call, and stays as it is", async (_, end) => {
    const name = newName()
    expect((await told(call("plain", { "X-Run-Id": name, "X-Run-Budget-Rp": "100" }))).status).toBe(200)
    const answer = await end(name)
    expect(answer.status).toBe(200)
    const receipt = (await answer.json()) as { ends_at: string }
    expect(receipt).toMatchObject({ name, status: "ended", calls: 1 })
    expect(Date.parse(receipt.ends_at)).toBeLessThanOrEqual(Date.now())
    for (const more of [{}, { "X-Run-Budget-Rp": "100" }]) {
      const refused = await call("plain", { "X-Run-Id": name, ...more })
      expect([refused.status, refused.headers.get("x-error-code")]).toEqual([402, "quota.run_limit_exceeded"])
      await refused.text()
    }
    expect(await dry({ "X-Run-Id": name })).toMatchObject({ code: "quota.run_limit_exceeded" })
    await Bun.sleep(5)
    expect(await (await end(name)).json()).toEqual(receipt)
    const other = await told(call("plain", { "X-Run-Id": newName(), "X-Run-Budget-Rp": "100" }))
    expect(other.status).toBe(200)
  })

  test("lets a call under way finish within what it holds", async () => {
    const slow = await gateway.model({ format: "chat", script: "input=10&output=2&ttft=1500" })
    const name = newName()
    const answering = told(call(slow, { "X-Run-Id": name, "X-Run-Budget-Rp": "100" }, { more: { stream: true } }))
    const held = async () => ((await (await read(name)).json()) as { held_micro?: number }).held_micro ?? 0
    while ((await held()) === 0) await Bun.sleep(5)
    const receipt = (await (await endByKey(name)).json()) as { held_micro: number; status: string }
    expect(receipt.status).toBe("ended")
    expect(receipt.held_micro).toBeGreaterThan(0)
    expect((await told(call(slow, { "X-Run-Id": name }))).code).toBe("quota.run_limit_exceeded")
    expect((await answering).status).toBe(200)
    expect(await spent(name)).toEqual({ record: cost(10, 2), calls: cost(10, 2) })
  })

  test("is nobody else's, and one that there is not is not made", async () => {
    const name = newName()
    expect((await told(call("plain", { "X-Run-Id": name, "X-Run-Budget-Rp": "100" }))).status).toBe(200)
    const stranger = await gateway.person(10_000)
    const id = runIdOf(key.id, name)
    for (const { key: secret } of [await gateway.key(person), await gateway.key(stranger)])
      for (const named of [name, id]) expect((await endByKey(named, secret)).status).toBe(404)
    const ending = { method: "POST", body: "{}" }
    expect((await gateway.dashboard(stranger, `/runs/${id}/end`, ending)).status).toBe(404)
    expect((await gateway.dashboard(person, "/runs/run_nobody/end", ending)).status).toBe(404)
    expect((await endByKey("never-there")).status).toBe(404)
    expect(await (await read(name)).json()).toMatchObject({ status: "open" })
    expect((await told(call("plain", { "X-Run-Id": name }))).status).toBe(200)
  })
})

const make = (body: object, by = person) =>
  gateway.dashboard(by, "/runs", { method: "POST", body: JSON.stringify({ key_id: key.id, ...body }) })

describe("to the micro-rupiah", () => {
  test("a run whose budget covers exactly one least call is admitted, and one micro-rupiah less is not", async () => {
    const model = await gateway.model({ format: "chat", script: "input=1&output=1" })
    const asks = async (budget: number) => {
      const name = newName()
      expect((await make({ name, budget_micro: budget })).status).toBe(201)
      return await told(call(model, { "X-Run-Id": name }, { more: { max_tokens: 1 } }))
    }
    let [refused, taken] = [1, 1_000_000]
    while (taken - refused > 1) {
      const middle = Math.floor((refused + taken) / 2)
      if ((await asks(middle)).status === 200) taken = middle
      else refused = middle
    }
    // More than the one token of the answer.
    expect(taken).toBeGreaterThan(5_000)
    expect(await asks(taken)).toMatchObject({
      status: 200,
      costMicro: cost(1, 1),
      remaining: String(taken - cost(1, 1)),
    })
    expect(await asks(taken - 1)).toMatchObject({ status: 402, code: "quota.run_limit_exceeded" })
  })

  test("a call that costs more than was held takes the run to its last micro-rupiah, and the house bears the rest", async () => {
    const model = await gateway.model({ format: "chat", script: "input=100000&output=1" })
    const name = newName()
    expect((await make({ name, budget_micro: 1_234_567 })).status).toBe(201)
    const answer = await told(call(model, { "X-Run-Id": name }, { more: { max_tokens: 1 } }))
    expect(answer).toMatchObject({ status: 200, costMicro: 1_234_567, remaining: "0" })
    expect(await spent(name)).toEqual({ record: 1_234_567, calls: 1_234_567 })
    expect(await told(call(model, { "X-Run-Id": name }))).toMatchObject({
      status: 402,
      code: "quota.run_limit_exceeded",
    })
  })

  test.each([false, true])("fifty calls at once never spend more than the budget (stream: %p)", async (stream) => {
    const model = await gateway.model({ format: "messages", script: "input=20&output=12" })
    const name = newName()
    const headers = { "X-Run-Id": name, "X-Run-Budget-Rp": "1" }
    const asked = { format: "messages", more: { max_tokens: 16, stream } } as const
    const answers = await Promise.all(Array.from({ length: 50 }, () => told(call(model, headers, asked))))
    const ok = answers.filter(({ status }) => status === 200).length
    expect(ok).toBeGreaterThan(5)
    for (const { status, code } of answers) if (status !== 200) expect(code).toBe("quota.run_limit_exceeded")
    expect(ok).toBeLessThan(50)
    const { record, calls } = await spent(name)
    expect([record, calls]).toEqual([ok * cost(20, 12), ok * cost(20, 12)])
    expect(record).toBeLessThanOrEqual(1_000_000)
    expect((await gateway.balance(person)).held_micro).toBe(0)
  })

  test("a dearer model of the chain pays within the run, and one that the run cannot pay is passed over", async () => {
    const dear = await gateway.model({
      format: "chat",
      script: "input=10&output=10",
      input_micro: 50_000,
      output_micro: 50_000,
    })
    const asked = await gateway.model({ format: "chat", script: "fault=status&status=429", fallback: [dear] })
    const generous = await gateway.key(person, { fallback: "any" })
    const answered = async (budget: string) => {
      const name = newName()
      const headers = { "X-Run-Id": name, "X-Run-Budget-Rp": budget }
      const answer = await told(call(asked, headers, { secret: generous.key, more: { max_tokens: 20 } }))
      return { ...answer, ...(await spent(name, generous.id)) }
    }
    expect(await answered("10")).toMatchObject({ status: 200, record: 1_000_000, calls: 1_000_000 })
    expect(await answered("1")).toMatchObject({ status: 429, code: "upstream.rate_limited", record: 0, calls: 0 })
  })
})

const read = (name: string, secret = key.key) =>
  fetch(`${gateway.url}/v1/runs/${encodeURIComponent(name)}`, { headers: { authorization: `Bearer ${secret}` } })

describe("a run's receipt", () => {
  test("says its calls, tokens and cost by model, and what is left, to its key and to its owner alike", async () => {
    const cheap = await gateway.model({ format: "chat", script: "input=10&output=2" })
    const dear = await gateway.model({ format: "chat", script: "input=30&cached=10&output=4" })
    const broken = await gateway.model({ format: "chat", script: "fault=status&status=400" })
    const name = newName()
    const headers = { "X-Run-Id": name, "X-Run-Budget-Rp": "50" }
    const ids: string[] = []
    for (const model of [cheap, cheap, dear, broken]) {
      const answer = await call(model, headers)
      await answer.text()
      ids.push(answer.headers.get("x-request-id") ?? "")
    }
    const receipt = (await (await read(name)).json()) as Record<string, unknown>
    const [ofCheap, ofDear] = [2 * cost(10, 2), cost(30, 4) + 10 * 100]
    const tokens = { cache_write_tokens: 0 }
    expect(receipt).toMatchObject({
      id: runIdOf(key.id, name),
      name,
      key_id: key.id,
      status: "open",
      budget_micro: 50_000_000,
      spent_micro: ofCheap + ofDear,
      held_micro: 0,
      remaining_micro: 50_000_000 - ofCheap - ofDear,
      calls: 4,
      ok_calls: 3,
      input_tokens: 50,
      output_tokens: 8,
      cache_read_tokens: 10,
      charge_micro: ofCheap + ofDear,
    })
    expect(receipt["models"]).toEqual([
      {
        model: dear,
        calls: 1,
        ok_calls: 1,
        ...tokens,
        input_tokens: 30,
        output_tokens: 4,
        cache_read_tokens: 10,
        charge_micro: ofDear,
      },
      {
        model: cheap,
        calls: 2,
        ok_calls: 2,
        ...tokens,
        input_tokens: 20,
        output_tokens: 4,
        cache_read_tokens: 0,
        charge_micro: ofCheap,
      },
      {
        model: broken,
        calls: 1,
        ok_calls: 0,
        ...tokens,
        input_tokens: 0,
        output_tokens: 0,
        cache_read_tokens: 0,
        charge_micro: 0,
      },
    ])
    const id = String(receipt["id"])
    expect(await (await read(id)).json()).toEqual(receipt)
    expect(await (await gateway.dashboard(person, `/runs/${id}`)).json()).toEqual(receipt)
    expect(await gateway.usage(person, ids[0] ?? "")).toMatchObject({ run_id: id })
    const listed = (await (await gateway.dashboard(person, `/usage?run_id=${id}`)).json()) as {
      data: { request_id: string }[]
    }
    expect(listed.data.map((row) => row.request_id).sort()).toEqual([...ids].sort())
    const { data } = (await (await gateway.dashboard(person, `/runs?key_id=${key.id}&limit=100`)).json()) as {
      data: { id: string }[]
    }
    expect(data.find((run) => run.id === id)).toMatchObject({ spent_micro: ofCheap + ofDear, name })
  })

  test("is listed with others, the newest first, page by page, and those of one key alone where it is named", async () => {
    const owner = await gateway.person(10_000)
    const [one, two] = [await gateway.key(owner), await gateway.key(owner)]
    const ids: string[] = []
    for (const [n, { id: keyId }] of [one, two, one].entries()) {
      const made = await make({ key_id: keyId, budget_micro: 1_000_000 }, owner)
      const { id } = (await made.json()) as { id: string }
      await gateway.sql`update runs set created_at = created_at - make_interval(mins => ${n}) where id = ${id}`
      ids.push(id)
    }
    const pages = async (query: string) => {
      const found: string[] = []
      for (let cursor: string | null = ""; cursor !== null;) {
        const page = await gateway.dashboard(owner, `/runs?limit=1&cursor=${cursor}${query}`)
        const { data, next_cursor } = (await page.json()) as { data: { id: string }[]; next_cursor: string | null }
        expect(data).toHaveLength(1)
        found.push(...data.map(({ id }) => id))
        cursor = found.length > ids.length ? null : next_cursor
      }
      return found
    }
    expect(await pages("")).toEqual(ids)
    expect(await pages(`&key_id=${one.id}`)).toEqual([ids[0] ?? "", ids[2] ?? ""])
  })

  test("is nobody else's: not of another key of the account, nor of another account", async () => {
    const name = newName()
    await told(call("plain", { "X-Run-Id": name, "X-Run-Budget-Rp": "100" }))
    const stranger = await gateway.person(10_000)
    const id = runIdOf(key.id, name)
    for (const { key: secret } of [await gateway.key(person), await gateway.key(stranger)]) {
      for (const named of [name, id]) {
        const answer = await read(named, secret)
        expect([answer.status, answer.headers.get("x-error-code")]).toEqual([404, "resource.not_found"])
      }
    }
    expect((await gateway.dashboard(stranger, `/runs/${id}`)).status).toBe(404)
    expect(await (await gateway.dashboard(stranger, "/runs")).json()).toEqual({ data: [], next_cursor: null })
    expect(await (await gateway.dashboard(stranger, `/usage?run_id=${id}`)).json()).toMatchObject({ data: [] })
  })

  test("is live: what calls under way hold is in it", async () => {
    const slow = await gateway.model({ format: "chat", script: "input=10&output=2&ttft=1500" })
    const name = newName()
    const answering = told(call(slow, { "X-Run-Id": name, "X-Run-Budget-Rp": "100" }, { more: { stream: true } }))
    let held = 0
    while (held === 0) {
      const now = (await (await read(name)).json()) as { held_micro?: number; remaining_micro?: number }
      held = now.held_micro ?? 0
      if (held > 0) expect(now.remaining_micro).toBe(100_000_000 - held)
    }
    await answering
  })
})

const dry = async (headers: Record<string, string>) => {
  const answer = await call("plain", { ...headers, "X-Dry-Run": "true" })
  const { limits, refused_by } = (await answer.json()) as {
    limits: { run?: unknown }
    refused_by: { code: string } | null
  }
  return { run: limits.run, code: refused_by?.code }
}

describe("a dry run of a call of a run", () => {
  test("says what is left of the run, or why it would refuse the call, and makes none", async () => {
    const name = newName()
    const first = { "X-Run-Id": name, "X-Run-Budget-Rp": "100" }
    expect(await dry({ "X-Run-Id": name })).toEqual({ run: undefined, code: "run.unknown" })
    expect(await dry(first)).toEqual({
      run: { status: "new", limit_micro: 100_000_000, remaining_micro: 100_000_000, ends_at: null },
      code: undefined,
    })
    expect((await gateway.sql`select from runs where id = ${runIdOf(key.id, name)}`).length).toBe(0)
    const { costMicro } = await told(call("plain", first))
    const left = {
      status: "open",
      limit_micro: 100_000_000,
      remaining_micro: 100_000_000 - costMicro,
      ends_at: expect.stringMatching(/^\d{4}-.+Z$/),
    }
    expect(await dry({ "X-Run-Id": name })).toEqual({ run: left, code: undefined })
    expect(await dry({ ...first, "X-Run-Budget-Rp": "99" })).toEqual({ run: left, code: "run.budget_mismatch" })
    expect(await dry({ ...first, "X-Run-Budget-Rp": "0" })).toEqual({ run: undefined, code: "request.invalid" })
    const tiny = newName()
    await make({ name: tiny, budget_micro: 5 })
    expect(await dry({ "X-Run-Id": tiny })).toEqual({
      run: { status: "open", limit_micro: 5, remaining_micro: 5, ends_at: expect.stringMatching(/^\d{4}-.+Z$/) },
      code: "quota.run_limit_exceeded",
    })
  })
})

const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString()

describe("a run that is made before its first call", () => {
  test("has a name made up, and ends after seven days", async () => {
    const made = (await (await make({ budget_micro: 7 })).json()) as {
      name: string
      ends_at: string
      created_at: string
    }
    expect(made).toMatchObject({ budget_micro: 7, spent_micro: 0, remaining_micro: 7, status: "open" })
    expect(made.name).toMatch(/^[0-9a-f]{32}$/)
    expect(Date.parse(made.ends_at) - Date.parse(made.created_at)).toBe(7 * 24 * 60 * 60 * 1_000)
    expect(await told(call("plain", { "X-Run-Id": made.name }))).toMatchObject({ status: 402 })
  })

  test("is taken as it is by whoever asks for the same, and refused to whoever asks for another", async () => {
    const name = newName()
    const first = (await (await make({ name, budget_micro: 70_000_000 })).json()) as { id: string }
    expect(await (await make({ name, budget_micro: 70_000_000 })).json()).toMatchObject({ id: first.id })
    const other = await make({ name, budget_micro: 70_000_001 })
    expect(other.headers.get("x-error-code")).toBe("run.budget_mismatch")
    const later = await make({ name, budget_micro: 70_000_000, ends_at: new Date(Date.now() + 60_000).toISOString() })
    expect(later.headers.get("x-error-code")).toBe("request.invalid")
    expect(await told(call("plain", { "X-Run-Id": name, "X-Run-Budget-Rp": "70" }))).toMatchObject({ status: 200 })
  })

  test("is refused with a budget, an end, a name or a key that cannot be", async () => {
    const codes = await Promise.all(
      [
        { budget_micro: 0 },
        { budget_micro: 1.5 },
        { budget_micro: 1_000_000_000_000_001 },
        { budget_micro: "7" },
        {},
        { budget_micro: 7, name: "a b" },
        { budget_micro: 7, ends_at: "soon" },
        { budget_micro: 7, ends_at: inDays(2).slice(0, 10) },
        { budget_micro: 7, ends_at: inDays(1).replace("Z", "") },
        { budget_micro: 7, ends_at: new Date(inDays(1)).toUTCString() },
        { budget_micro: 7, ends_at: inDays(-1) },
        { budget_micro: 7, ends_at: inDays(90.01) },
      ].map(async (body) => (await make(body)).headers.get("x-error-code")),
    )
    expect(new Set(codes)).toEqual(new Set(["request.invalid"]))
    const stranger = await gateway.person(10_000)
    expect((await make({ budget_micro: 7 }, stranger)).status).toBe(404)
    const revoked = await gateway.key(person)
    await gateway.dashboard(person, `/keys/${revoked.id}/revoke`, { method: "POST" })
    expect((await make({ budget_micro: 7, key_id: revoked.id })).status).toBe(400)
    expect((await make({ budget_micro: 1_000_000_000_000_000, ends_at: inDays(89.99) })).status).toBe(201)
  })
})

test("an account has 2,000 runs that have not ended, and 20,000 in all", async () => {
  const someone = await gateway.person(10_000)
  const { id, key: secret } = await gateway.key(someone)
  const fill = (from: number, to: number, ends: string) => gateway.sql`
    insert into runs (id, account_id, key_id, name, budget_micro, created_at, ends_at)
    select 'run_' || ${id}::text || n, ${someone.accountId}, ${id}, n::text, 1, now() - interval '1 hour', now() + ${ends}::interval
    from generate_series(${from}::int, ${to}::int) n`
  const asks = async (name: string) => {
    for (;;) {
      const answer = await told(call("plain", { "X-Run-Id": name, "X-Run-Budget-Rp": "100" }, { secret }))
      // So many rows may be more than a slow machine's database counts in time.
      if (answer.status !== 503) return answer
    }
  }
  await fill(1, 1_999, "1 hour")
  expect(await asks("last")).toMatchObject({ status: 200 })
  expect(await asks("over")).toMatchObject({ status: 402, code: "quota.runs_exceeded" })
  expect(await asks("last")).toMatchObject({ status: 200 })
  // Ended ones in their place.
  await gateway.sql`delete from runs where account_id = ${someone.accountId} and name <> 'last'`
  await fill(1, 1_999, "-1 minute")
  await fill(2_001, 19_999, "-1 minute")
  expect(await asks("in-all")).toMatchObject({ status: 200 })
  expect(await asks("too-many")).toMatchObject({ status: 402, code: "quota.runs_exceeded" })
})
