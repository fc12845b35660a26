/** The history of backends through a running gateway whose backend fails, and is well again. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { soleCredential } from "../../../src/catalogue/model.ts"
import { backendOf, type Person, startTestGateway, type TestGateway } from "../../gateway/harness.ts"
import { type Simulator, startSimulator } from "../../../src/simulator/simulator.ts"
import { type Answer, caller, makeOperator } from "./operator.ts"
import { eventually } from "../../eventually.ts"

let gateway: TestGateway
let simulator: Simulator
let operator: Person
let ask: ReturnType<typeof caller>
let key: string
/** What the backend answers with instead. */
let status: number | undefined
const front = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  async fetch(request) {
    if (status !== undefined) return Response.json({ error: { message: "no", type: "x" } }, { status })
    const { method, headers, url } = request
    return await fetch(simulator.url + new URL(url).pathname, { method, headers, body: await request.text() })
  },
})

beforeAll(async () => {
  simulator = startSimulator()
  const provider = {
    id: "farm",
    label: "Farm",
    baseUrl: `http://127.0.0.1:${front.port}`,
    credentials: [soleCredential("X")] as const,
    headers: {},
  }
  gateway = await startTestGateway({ backends: [backendOf(provider, "sk-farm")] })
  operator = await makeOperator(gateway)
  ask = caller(gateway, operator)
  key = (await gateway.key(await gateway.person(1_000_000))).key
})
afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  await simulator.stop()
  await front.stop(true)
})

async function made(): Promise<{ readonly model: string; readonly member: string }> {
  const name = `m${crypto.randomUUID().slice(0, 8)}`
  const upstreams = [{ provider: "farm", format: "chat" as const, model: name }]
  return { model: await gateway.model({ format: "chat", upstreams }), member: `farm/default/${name}` }
}
async function say(model: string, times = 1): Promise<number[]> {
  const seen: number[] = []
  for (let time = 0; time < times; time++) {
    const body = { model, max_tokens: 50, messages: [{ role: "user", content: "hi" }] }
    const response = await gateway.post("/v1/chat/completions", key, body)
    await response.text()
    seen.push(response.status)
  }
  return seen
}
const historyOf = async (member: string, query = "") =>
  (await ask(`/operator/backends/history?member=${encodeURIComponent(member)}${query}`)).json
/** What is gathered is written every few seconds. */
const entriesOf = (member: string, count: number, of = member): Promise<Answer["json"][]> =>
  eventually(
    `${count} entries of ${member}`,
    async () => {
      await Bun.sleep(100)
      const { data: all } = await historyOf(member)
      return all.filter((entry: { member: string }) => [of, member].includes(entry.member)) as Answer["json"][]
    },
    (data) => data.length >= count,
  )
const eventsOf = (entries: readonly Answer["json"][]): string[] => entries.map(({ event }) => event)

test("a backend that fails is held back and well again in the history, with what failed and what operators did meanwhile", async () => {
  const { model, member } = await made()
  await say(model, 2)
  status = 500
  expect(new Set(await say(model, 4))).toEqual(new Set([502]))
  await entriesOf(member, 1)
  status = undefined
  expect(await say(model)).toEqual([200])
  await entriesOf(member, 2)
  const path = `/operator/members/${encodeURIComponent(member)}`
  await ask(path, { state: "draining", weight: 5 }, "PATCH")
  await ask(`${path}/retry`, {})
  const entries = await entriesOf(member, 4)
  expect(eventsOf(entries)).toEqual(["member.retried", "member.changed", "closed", "opened"])
  const [retried, changed, closed, opened] = entries
  expect(opened).toMatchObject({ model, member, times: 1, class: "server_error", status: 500, operator: null })
  expect(opened.processes).toHaveLength(1)
  expect(closed).toMatchObject({ model, times: 1, class: null, status: null })
  expect(changed).toMatchObject({
    member,
    model: null,
    operator: { id: operator.accountId },
    before: { state: "serving", weight: null },
    after: { state: "draining", weight: 5 },
  })
  expect(retried.request_id).toMatch(/^req_/)

  const pages: string[] = []
  for (let cursor = ""; ;) {
    const page = await historyOf(member, `&limit=1${cursor}`)
    pages.push(...eventsOf(page.data))
    if (page.next_cursor === null) break
    cursor = `&cursor=${page.next_cursor}`
  }
  expect(pages).toEqual(eventsOf(entries))
  const { json } = await ask(`/operator/backends/hours?member=${encodeURIComponent(member)}`)
  const sum = (name: string) =>
    json.data.reduce((all: number, hour: Record<string, number>) => all + (hour[name] ?? 0), 0)
  expect(sum("tries") - sum("failures")).toBe(3)
  expect([sum("failures") >= 4, sum("rate_limited")]).toEqual([true, 0])
  expect(json.data[0].first_token_p50_ms).toBeGreaterThan(0)
})

test("a credential that is refused is told of the credential, with each of its members", async () => {
  const { model, member } = await made()
  status = 401
  await say(model, 3)
  status = undefined
  await say(model)
  const entries = await entriesOf(member, 2, "farm/default")
  expect(eventsOf(entries).toSorted()).toEqual(["credential_accepted", "credential_refused"])
  expect(entries.find(({ event }) => event === "credential_refused")).toMatchObject({
    member: "farm/default",
    model: null,
    class: "needs_attention",
    status: 401,
  })
})

test("a database that cannot keep the history loses no call, and gets the history afterwards", async () => {
  const { model, member } = await made()
  await gateway.sql`alter table backend_events rename to backend_events_away`
  status = 500
  await say(model, 4)
  status = undefined
  const isTold = () => gateway.complaints.some((line) => line.includes("history of backends not written"))
  while (!isTold()) await Bun.sleep(100)
  expect(await say(model, 5)).toEqual([200, 200, 200, 200, 200])
  await gateway.sql`alter table backend_events_away rename to backend_events`
  expect(eventsOf(await entriesOf(member, 2)).toSorted()).toEqual(["closed", "opened"])
})

test("support may look, and what is no cursor or no member is refused", async () => {
  const support = caller(gateway, await makeOperator(gateway, "support"))
  for (const path of ["history", "hours"]) {
    expect((await support(`/operator/backends/${path}`)).status).toBe(200)
    expect((await ask(`/operator/backends/${path}?member=${"x".repeat(401)}`)).status).toBe(400)
    expect((await ask(`/operator/backends/${path}?member=${"x".repeat(400)}`)).json.data).toEqual([])
  }
  for (const place of ["1 x 1", "1 e", `${"9".repeat(18)} e 1`, "1 e 1 1"]) {
    const cursor = Buffer.from(place).toString("base64url")
    expect((await ask(`/operator/backends/history?cursor=${cursor}`)).status).toBe(400)
  }
  const widest = Buffer.from(`${"9".repeat(17)} e ${"9".repeat(18)}`).toString("base64url")
  expect((await ask(`/operator/backends/history?cursor=${widest}`)).status).toBe(200)
})
