import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { startTestGateway, type Person, type TestGateway } from "../../gateway/harness.ts"
import { reconcile } from "../../money/reconcile.ts"
import { caller, makeOperator } from "./operator.ts"

let gateway: TestGateway
let operator: Person
let ask: ReturnType<typeof caller>
let key: string
beforeAll(async () => {
  gateway = await startTestGateway()
  operator = await makeOperator(gateway)
  ask = caller(gateway, operator)
  key = (await gateway.key(await gateway.person(1_000_000))).key
})
afterAll(() => gateway[Symbol.asyncDispose]())

const shown = async (model: string) => {
  const { json } = await ask("/operator/models")
  return json.data.find((one: { model: string }) => one.model === model)
}
const sold = async (model: string) => {
  const { data } = (await (await fetch(`${gateway.url}/models`)).json()) as { data: Record<string, unknown>[] }
  return data.find((one) => one["model"] === model)
}
const say = (model: string) =>
  gateway.post("/v1/chat/completions", key, { model, max_tokens: 50, messages: [{ role: "user", content: "hi" }] })
const logOf = async (model: string) =>
  (await ask(`/operator/audit?subject=${model}`)).json.data.map(
    ({ action, before, after }: Record<string, unknown>) => ({
      action,
      before,
      after,
    }),
  )
const rates = (input: number) => ({
  input_micro: input,
  output_micro: 5_000,
  cache_read_micro: 100,
  cache_write_micro: 1_250,
})
const inAnHour = () => new Date(Date.now() + 3_600_000).toISOString()
const refused = ({ status, json }: { status: number; json: { code: string } }) => [status, json.code]

test("a backend is shown with what it wants otherwise", async () => {
  const plain = { provider: "simulated", format: "chat", model: "m" } as const
  const wanted = { set: { reasoning_split: true }, efforts: ["low" as const], needs: ["system_role" as const] }
  const model = await gateway.model({
    format: "chat",
    upstreams: [
      { ...plain, ...wanted },
      { ...plain, model: "n" },
    ],
  })
  expect(await shown(model)).toMatchObject({
    upstreams: [
      { ...plain, ...wanted },
      { model: "n", set: {}, efforts: null, needs: [] },
    ],
  })
})

describe("a model's fields", () => {
  test("change at once, with what was and what is told and logged", async () => {
    const model = await gateway.model({ format: "chat" })
    const other = await gateway.model({ format: "chat" })
    const change = {
      display_name: "New name",
      tier: "gold",
      max_concurrency: 7,
      fallback: [other],
      pass: ["min_p", "top_k"],
    }
    const before = { display_name: model, tier: "standard", max_concurrency: 64, fallback: [], pass: [] }
    const { status, json } = await ask(`/operator/models/${model}`, change, "PATCH")
    expect([status, json]).toEqual([200, { dry_run: false, model, before, after: change }])
    expect(await sold(model)).toMatchObject({ display_name: "New name", tier: "gold" })
    expect(await shown(model)).toMatchObject({ ...change, edited: expect.arrayContaining(Object.keys(change)) })
    expect(await logOf(model)).toEqual([{ action: "model.changed", before, after: change }])
  })

  test("are tried without being changed", async () => {
    const model = await gateway.model({ format: "chat" })
    const { json } = await ask(`/operator/models/${model}?dry_run=true`, { tier: "gold" }, "PATCH")
    expect(json).toEqual({ dry_run: true, model, before: { tier: "standard" }, after: { tier: "gold" } })
    expect(await sold(model)).toMatchObject({ tier: "standard" })
    expect(await logOf(model)).toEqual([])
  })

  test("that are the same already change nothing and log nothing", async () => {
    const model = await gateway.model({ format: "chat" })
    expect((await ask(`/operator/models/${model}`, { tier: "standard" }, "PATCH")).status).toBe(200)
    expect((await shown(model)).edited).toEqual([])
    expect(await logOf(model)).toEqual([])
  })

  test("refuse what no model can be", async () => {
    const model = await gateway.model({ format: "chat" })
    const other = await gateway.model({ format: "chat" })
    const elsewhere = await gateway.model({ format: "responses" })
    const gone = await gateway.model({ format: "chat" })
    await ask(`/operator/models/${gone}/retire`, { target: other, until: inAnHour() })
    const wrong = [
      { max_concurrency: 0 },
      { max_concurrency: 1.5 },
      { max_concurrency: 2_147_483_648 },
      { display_name: "" },
      { display_name: "   " },
      { display_name: "x".repeat(101) },
      { display_name: "A model", colour: "green" },
      { tier: "half of a pair: \ud83d" },
      { tier: "two\nlines" },
      { fallback: other },
      { fallback: ["nothing-of-this-name"] },
      { fallback: [model] },
      { fallback: [other, other] },
      { fallback: [elsewhere] },
      { fallback: [gone] },
      { pass: "min_p" },
      { pass: ["min_p", "min_p"] },
      { pass: ["a b"] },
      { pass: ["x".repeat(65)] },
      { pass: ["provider"] },
      { pass: ["min_p", "Best_Of"] },
      { pass: ["min_p", "max_output_tokens"] },
      { pass: Array.from({ length: 51 }, (_, n) => `field_${n}`) },
    ]
    for (const change of wrong)
      expect([change, ...refused(await ask(`/operator/models/${model}`, change, "PATCH"))]).toEqual([
        change,
        400,
        "request.invalid",
      ])
    for (const query of ["dry_run=maybe", "dryrun=true", "dry-run=true"])
      expect([query, ...refused(await ask(`/operator/models/${model}?${query}`, { tier: "x" }, "PATCH"))]).toEqual([
        query,
        400,
        "request.invalid",
      ])
    expect(await logOf(model)).toEqual([])
  })

  test("take what is just as much as a model can be", async () => {
    const model = await gateway.model({ format: "chat" })
    const most = {
      display_name: "x".repeat(100),
      max_concurrency: 2_147_483_647,
      pass: ["x".repeat(64), ...Array.from({ length: 49 }, (_, n) => `field_${n}`)],
    }
    expect((await ask(`/operator/models/${model}`, most, "PATCH")).status).toBe(200)
    expect(await shown(model)).toMatchObject(most)
  })

  test("an id with a slash is found, an unknown one is not", async () => {
    const model = await gateway.model({ format: "chat", model: "vendor/with:all@of.it" })
    const path = `/operator/models/${encodeURIComponent(model)}`
    expect((await ask(path, { tier: "gold" }, "PATCH")).status).toBe(200)
    expect(refused(await ask("/operator/models/nobody", { tier: "gold" }, "PATCH"))).toEqual([
      404,
      "resource.not_found",
    ])
  })
})

describe("a price", () => {
  test("begins when it says, and calls admitted before keep theirs", async () => {
    const model = await gateway.model({ format: "chat", script: "ttft=4000" })
    const call = say(model)
    const { status, json } = await ask(`/operator/models/${model}/prices`, rates(1_500))
    expect([status, json.before.input_micro, json.after.input_micro]).toEqual([201, 1_000, 1_500])
    const [row] = await gateway.sql<
      { id: bigint }[]
    >`select id from prices where model = ${model} and input_micro = 1500`
    expect(json.after.id).toBe(Number(row?.id))
    while ((await sold(model))?.["input_micro"] !== 1_500) await Bun.sleep(50)
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(json.after.effective_at))
    const first = (await call).headers.get("x-request-id")
    const second = (await say(model)).headers.get("x-request-id")
    const priced = async (id: string | null) => {
      const [used] = await gateway.sql<{ input_micro: bigint }[]>`
        select p.input_micro from usage u join prices p on p.id = u.price_id where u.request_id = ${id} and u.part = 0`
      return used?.input_micro
    }
    expect([await priced(first), await priced(second)]).toEqual([1_000n, 1_500n])
    await reconcile(gateway.sql)
  })

  test("that jumps wants to be confirmed, and the answer names what jumps", async () => {
    const model = await gateway.model({ format: "chat" })
    const path = `/operator/models/${model}/prices`
    const effective_at = inAnHour()
    const jump = await ask(path, { ...rates(2_001), effective_at })
    expect(refused(jump)).toEqual([400, "request.invalid"])
    expect(jump.json.error).toContain("input_micro from 1000 to 2001 (2 times)")
    expect(jump.json.hint).toContain("confirm_jump")
    for (const [input, factor] of [
      [499, 2],
      [0, null],
    ]) {
      const tried = await ask(`${path}?dry_run=true`, { ...rates(input ?? 0), effective_at })
      expect([tried.status, tried.json.jumps]).toEqual([200, [{ name: "input_micro", from: 1_000, to: input, factor }]])
      expect((await ask(path, { ...rates(input ?? 0), effective_at })).status).toBe(400)
    }
    expect((await ask(path, { ...rates(2_000), effective_at: inAnHour() })).status).toBe(201)
    expect((await ask(path, { ...rates(9_000), effective_at, confirm_jump: true })).status).toBe(201)
    expect((await shown(model)).prices.map(({ state }: { state: string }) => state)).toEqual([
      "current",
      "coming",
      "coming",
    ])
  })

  test("that is still to come is deleted, one that is in force is not, and all is logged", async () => {
    const model = await gateway.model({ format: "chat" })
    const path = `/operator/models/${model}/prices`
    const effective_at = inAnHour()
    const { json } = await ask(path, { ...rates(1_100), effective_at })
    // Whoever looks at the catalogue sees it beside the one in force.
    expect(await sold(model)).toMatchObject({ input_micro: 1_000, next_price: { ...rates(1_100), effective_at } })
    const [current] = (await shown(model)).prices
    expect(refused(await ask(`${path}/${current.id}`, {}, "DELETE"))).toEqual([400, "request.invalid"])
    expect(refused(await ask(`${path}/${current.id}?dry_run=true`, {}, "DELETE"))).toEqual([400, "request.invalid"])
    for (const id of ["0", "999999999", "x", "99999999999999999999"])
      expect(refused(await ask(`${path}/${id}`, {}, "DELETE"))).toEqual([404, "resource.not_found"])
    expect((await ask(`${path}/${json.after.id}?dry_run=true`, {}, "DELETE")).json).toMatchObject({ dry_run: true })
    expect((await shown(model)).prices).toHaveLength(2)
    expect((await ask(`${path}/${json.after.id}`, {}, "DELETE")).json).toMatchObject({
      before: { input_micro: 1_100 },
      after: null,
    })
    expect((await shown(model)).prices).toHaveLength(1)
    expect(await sold(model)).not.toHaveProperty("next_price")
    const actions = (await logOf(model)).map(({ action }: { action: string }) => action)
    expect(actions).toEqual(["model.price_deleted", "model.price_scheduled"])
  })

  test.each([
    [{ ...rates(1_000), effective_at: "2020-01-01T00:00:00Z" }],
    [{ ...rates(1_000), effective_at: "tomorrow" }],
    [{ ...rates(1_000), effective_at: "2027-02-31T00:00:00Z" }],
    [{ ...rates(-1) }],
    [{ ...rates(1.5) }],
    [{ ...rates(2 ** 53) }],
    [{ ...rates(1_000), rounds: 1 }],
    [{ input_micro: 1_000 }],
    [{ ...rates(1_000), confirm_jump: "yes" }],
  ])("of %j is refused", async (body) => {
    const model = await gateway.model({ format: "chat" })
    expect(refused(await ask(`/operator/models/${model}/prices`, body))).toEqual([400, "request.invalid"])
    expect((await shown(model)).prices).toHaveLength(1)
  })

  test("of a moment ago begins when every process knows it", async () => {
    const model = await gateway.model({ format: "chat" })
    const [now, effective_at] = [Date.now(), new Date(Date.now() - 30_000).toISOString()]
    const { status, json } = await ask(`/operator/models/${model}/prices`, { ...rates(1_100), effective_at })
    expect([status, Date.parse(json.after.effective_at) >= now + 3_000]).toEqual([201, true])
  })

  test("of the very time of another is refused", async () => {
    const model = await gateway.model({ format: "chat" })
    const effective_at = inAnHour()
    const path = `/operator/models/${model}/prices`
    expect((await ask(path, { ...rates(1_100), effective_at })).status).toBe(201)
    expect(refused(await ask(path, { ...rates(1_200), effective_at }))).toEqual([400, "request.invalid"])
  })
})

describe("retirement", () => {
  test("serves the id as its target, at the target's rate, and restoring sells it again", async () => {
    const model = await gateway.model({ format: "chat" })
    const target = await gateway.model({ format: "chat", input_micro: 1_700 })
    const until = inAnHour()
    const { status, json } = await ask(`/operator/models/${model}/retire`, { target, until })
    expect([status, json.before, json.after]).toEqual([200, null, { target, until }])
    expect(await sold(model)).toBeUndefined()
    expect(await shown(model)).toMatchObject({ status: "retiring", retirement: { target, until } })
    const answer = (await (await say(model)).json()) as { model: string }
    expect(answer.model).toBe(target)
    expect((await ask(`/operator/models/${model}/restore`, {})).json.before).toEqual({ target, until })
    expect(await sold(model)).toBeDefined()
    const actions = (await logOf(model)).map(({ action }: { action: string }) => action)
    expect(actions).toEqual(["model.restored", "model.retired"])
  })

  test("is refused to a target that is itself, unknown, retired, or does not serve every endpoint, and in the past", async () => {
    const model = await gateway.model({ format: "chat", endpoints: ["chat", "messages"] })
    const target = await gateway.model({ format: "chat" })
    const gone = await gateway.model({ format: "chat" })
    await ask(`/operator/models/${gone}/retire`, { target, until: inAnHour() })
    const wrong = [
      { target: model, until: inAnHour() },
      { target: "nobody", until: inAnHour() },
      { target: gone, until: inAnHour() },
      { target, until: inAnHour() },
      {
        target: await gateway.model({ format: "chat", endpoints: ["chat", "messages"] }),
        until: "2020-01-01T00:00:00Z",
      },
    ]
    for (const body of wrong)
      expect([body, ...refused(await ask(`/operator/models/${model}/retire`, body))]).toEqual([
        body,
        400,
        "request.invalid",
      ])
  })

  test("shows both prices, and wants a step of more than twice confirmed", async () => {
    const model = await gateway.model({ format: "chat", input_micro: 1_000, output_micro: 2_000 })
    const twice = await gateway.model({ format: "chat", input_micro: 2_000, output_micro: 4_000 })
    const more = await gateway.model({ format: "chat", input_micro: 2_001, output_micro: 2_000 })
    const path = `/operator/models/${model}/retire`
    const until = inAnHour()
    const tried = await ask(`${path}?dry_run=true`, { target: more, until })
    expect([tried.status, tried.json.prices.from.input_micro, tried.json.prices.to.input_micro]).toEqual([
      200, 1_000, 2_001,
    ])
    expect(tried.json.jumps).toEqual([{ name: "input_micro", from: 1_000, to: 2_001, factor: 2 }])
    const refusal = await ask(path, { target: more, until })
    expect(refused(refusal)).toEqual([400, "request.invalid"])
    expect((await shown(model)).status).toBe("on_sale")
    expect((await ask(path, { target: twice, until })).status).toBe(200)
    // From what callers of the id pay now, which is the first target's price.
    expect((await ask(path, { target: more, until })).status).toBe(200)
    expect((await ask(path, { target: model, until, confirm_jump: true })).status).toBe(400)
    const dear = await gateway.model({ format: "chat", input_micro: 9_000, output_micro: 2_000 })
    expect(refused(await ask(path, { target: dear, until }))).toEqual([400, "request.invalid"])
    expect((await ask(path, { target: dear, until, confirm_jump: true })).status).toBe(200)
    expect((await shown(model)).retirement.target).toBe(dear)
  })

  test("of a target takes those that were retired to it along", async () => {
    const [first, second, third] = [
      await gateway.model({ format: "chat" }),
      await gateway.model({ format: "chat" }),
      await gateway.model({ format: "chat" }),
    ]
    await ask(`/operator/models/${first}/retire`, { target: second, until: inAnHour() })
    await ask(`/operator/models/${second}/retire`, { target: third, until: inAnHour() })
    expect((await shown(first)).retirement.target).toBe(third)
    expect(((await (await say(first)).json()) as { model: string }).model).toBe(third)
  })
})
