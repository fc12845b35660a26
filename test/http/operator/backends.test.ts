/** Pools as operators see them, and what they set of members while they are at work. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Credential, Provider } from "../../../src/catalogue/model.ts"
import { type Simulator, startSimulator } from "../../../src/simulator/simulator.ts"
import { type Person, startTestGateway, type TestGateway } from "../../gateway/harness.ts"
import { eventually } from "../../contract/calling.ts"
import { caller, makeOperator } from "./operator.ts"

let gateway: TestGateway
let backend: Simulator
let operator: Person
let ask: ReturnType<typeof caller>
let key: string
const credential = (name: string): Credential => ({ name, key: { env: "X" }, weight: 1, maxConcurrency: 9 })
beforeAll(async () => {
  backend = startSimulator()
  const provider: Provider = {
    id: "farm",
    label: "Farm",
    baseUrl: backend.url,
    credentials: [credential("one"), credential("two")],
    headers: {},
  }
  gateway = await startTestGateway({
    backends: provider.credentials.map((one) => ({ provider, credential: one, apiKey: `sk-${one.name}` })),
  })
  operator = await makeOperator(gateway)
  ask = caller(gateway, operator)
  key = (await gateway.key(await gateway.person(1_000_000))).key
})
afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  await backend.stop()
})

/** A model of two members; every test has its own, because what is set of a member counts for all models. */
async function pooled(script = ""): Promise<{ readonly model: string; readonly one: string; readonly two: string }> {
  const name = `m${crypto.randomUUID().slice(0, 8)}${script}`
  const model = await gateway.model({ format: "chat", upstreams: [{ provider: "farm", format: "chat", model: name }] })
  return { model, one: `farm/one/${name}`, two: `farm/two/${name}` }
}
const at = (member: string, rest = "") => `/operator/members/${encodeURIComponent(member)}${rest}`
const set = (member: string, change: object) => ask(at(member), change, "PATCH")
const membersOf = async (model: string) => {
  const { json } = await ask("/operator/backends")
  return json.data.find((pool: { model: string }) => pool.model === model).members
}
/** So many conversations; the credentials that were asked. */
async function say(model: string, count: number): Promise<Set<string>> {
  const before = backend.calls.length
  for (let place = 0; place < count; place++) {
    const body = { model, max_tokens: 50, messages: [{ role: "user", content: `${place}` }] }
    await (await gateway.post("/v1/chat/completions", key, body)).text()
  }
  return new Set(backend.calls.slice(before).map(({ headers }) => headers["authorization"]?.slice(-3) ?? ""))
}
const logOf = async (member: string) =>
  (await ask(`/operator/audit?subject=${encodeURIComponent(member)}`)).json.data.map(
    ({ action, before, after }: Record<string, unknown>) => ({ action, before, after }),
  )

test("a pool is told with its members: what they are, how they did, and nothing that a backend said", async () => {
  const { model, one, two } = await pooled()
  expect(await say(model, 40)).toEqual(new Set(["one", "two"]))
  const members = await membersOf(model)
  expect(members.map(({ member }: { member: string }) => member)).toEqual([one, two])
  expect(members[0]).toMatchObject({
    provider: "farm",
    credential: "one",
    format: "chat",
    priority: 0,
    state: "serving",
    weight: 1,
    own_weight: null,
    catalogue_weight: 1,
    circuit: "closed",
    reopens_in_s: null,
    credential_circuit: "closed",
    under_way: 0,
    max_concurrency: 9,
    failures: 0,
    last_failure: null,
  })
  expect(members[0].calls + members[1].calls).toBe(40)
  expect(members[0].share).toBeCloseTo(members[0].calls / 40)
  expect(members[0].first_token_p50_ms).toBeGreaterThan(0)
  expect(JSON.stringify(members)).not.toContain("sk-")
})

test("one that fails is told with its class, its circuit, and when it is asked again", async () => {
  const { model, one } = await pooled("?fault=status&status=429&retry_after=60")
  await say(model, 30)
  const members = await membersOf(model)
  expect(members[0]).toMatchObject({ answered: 0, circuit: "open", by_class: { rate_limited: members[0].calls } })
  expect(members[0].last_failure).toMatchObject({ class: "rate_limited", status: 429 })
  expect(members[0].reopens_in_s).toBeGreaterThan(30)
  const { status, json } = await ask(at(one, "/retry"), {})
  expect([status, json.member]).toEqual([200, one])
  expect((await membersOf(model))[0]).toMatchObject({ circuit: "closed", reopens_in_s: null })
  expect(await logOf(one)).toEqual([
    { action: "member.retried", before: null, after: { retried_at: expect.any(String) } },
  ])
})

test("a disabled member gets no call, a draining one only where no other can, and both change at once and in writing", async () => {
  const { model, one, two } = await pooled()
  const { status, json } = await set(one, { state: "disabled" })
  expect([status, json]).toEqual([
    200,
    { dry_run: false, member: one, before: { state: "serving" }, after: { state: "disabled" } },
  ])
  expect(await say(model, 20)).toEqual(new Set(["two"]))
  expect((await membersOf(model))[0]).toMatchObject({ member: one, state: "disabled" })
  await set(one, { state: "draining" })
  expect(await say(model, 20)).toEqual(new Set(["two"]))
  await set(two, { state: "disabled" })
  expect(await say(model, 5)).toEqual(new Set(["one"]))
  await set(one, { state: "disabled" })
  const body = { model, max_tokens: 50, messages: [{ role: "user", content: "hi" }] }
  const nobody = await gateway.post("/v1/chat/completions", key, body)
  expect([nobody.status, ((await nobody.json()) as { code: string }).code]).toEqual([
    503,
    "dependency.upstream_unconfigured",
  ])
  for (const member of [one, two]) await set(member, { state: "serving" })
  expect(await say(model, 40)).toEqual(new Set(["one", "two"]))
  expect((await logOf(one)).map(({ after }: { after: unknown }) => after)).toEqual([
    { state: "serving" },
    { state: "disabled" },
    { state: "draining" },
    { state: "disabled" },
  ])
})

test.each([
  ["one of two members", ["one"], { status: 200, asked: "two" }],
  ["every member", ["one", "two"], { status: 503, asked: undefined }],
])("calls that wait for a slot while %s is disabled do not go there", async (_, disabled, { status, asked }) => {
  const name = `m${crypto.randomUUID().slice(0, 8)}?ttft=2000`
  const upstreams = [{ provider: "farm", format: "chat" as const, model: name }]
  const model = await gateway.model({ format: "chat", upstreams, max_concurrency: 4 })
  const before = backend.calls.length
  const body = (place: number) => ({ model, max_tokens: 50, messages: [{ role: "user", content: `${place}` }] })
  const calls = Array.from({ length: 8 }, (_, place) => gateway.post("/v1/chat/completions", key, body(place)))
  const waiting = async () => {
    const dry = await gateway.post("/v1/chat/completions", key, body(0), { headers: { "X-Dry-Run": "true" } })
    return ((await dry.json()) as { limits: { model: { waiting: number } } }).limits.model.waiting
  }
  await eventually("nobody waits", waiting, (count) => count === 4)
  for (const credential of disabled)
    expect((await set(`farm/${credential}/${name}`, { state: "disabled" })).status).toBe(200)
  const statuses = (await Promise.all(calls)).map((call) => call.status)
  expect(statuses.sort((one, other) => one - other)).toEqual([...Array(4).fill(200), ...Array(4).fill(status)])
  const later = backend.calls.slice(before + 4).map(({ headers }) => headers["authorization"]?.slice(-3))
  expect(later).toEqual(asked === undefined ? [] : Array(4).fill(asked))
})

test("a change that is misspelt is refused, and not passed over as none", async () => {
  const { one } = await pooled()
  const { status, json } = await set(one, { status: "disabled" })
  expect([status, json.error]).toEqual([400, "'status' is no field of this request; its fields are state, weight."])
  expect(await logOf(one)).toEqual([])
})

test("a weight holds in the place of the catalogue's until it is taken back", async () => {
  const { model, one } = await pooled()
  await set(one, { weight: 0 })
  expect(await say(model, 20)).toEqual(new Set(["two"]))
  expect((await membersOf(model))[0]).toMatchObject({ weight: 0, own_weight: 0, catalogue_weight: 1 })
  await set(one, { weight: 100_000 })
  expect(await say(model, 20)).toEqual(new Set(["one"]))
  await set(one, { weight: null })
  expect(await say(model, 40)).toEqual(new Set(["one", "two"]))
})

test("a change is tried without being made, and what cannot be is refused", async () => {
  const { model, one } = await pooled()
  const tried = await ask(`${at(one)}?dry_run=true`, { state: "disabled", weight: 5 }, "PATCH")
  expect(tried.json).toEqual({
    dry_run: true,
    member: one,
    before: { state: "serving", weight: null },
    after: { state: "disabled", weight: 5 },
  })
  expect((await membersOf(model))[0]).toMatchObject({ state: "serving", weight: 1 })
  expect(await logOf(one)).toEqual([])
  for (const wrong of [{ state: "off" }, { weight: -1 }, { weight: 1.5 }, { weight: 100_000_001 }, { weight: "1" }])
    expect((await set(one, wrong)).status).toBe(400)
  for (const unknown of ["farm/three/m", "x", "%"]) {
    expect((await set(unknown, { state: "disabled" })).status).toBe(404)
    expect((await ask(at(unknown, "/retry"), {})).status).toBe(404)
  }
})
