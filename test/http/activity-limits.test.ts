/** What an account's history says of its limits: ceilings of ten minutes, pauses and their ends. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"

let gateway: TestGateway
let model: string
beforeAll(async () => {
  gateway = await startTestGateway()
  const rates = { input_micro: 0, cache_read_micro: 0, cache_write_micro: 0, output_micro: 50_000_000 }
  model = await gateway.model({ format: "chat", script: "input=1&output=16", ...rates })
})
afterAll(() => gateway[Symbol.asyncDispose]())

interface Entry {
  readonly action: string
  readonly [field: string]: unknown
}
/** Newest first, without what made the account. */
const told = async (person: Person): Promise<readonly Entry[]> => {
  const response = await gateway.dashboard(person, "/account/activity")
  const { data } = (await response.json()) as { data: Entry[] }
  return data.filter(({ action }) => !["session.started", "account.created", "key.created"].includes(action))
}
const send = async (person: Person, method: string, path: string, body: object = {}) => {
  const response = await gateway.dashboard(person, path, { method, body: JSON.stringify(body) })
  if (!response.ok) throw new Error(`${method} ${path}: ${await response.text()}`)
}
const call = async (key: string) => {
  const body = { model, max_tokens: 16, messages: [{ role: "user", content: "Hello" }] }
  const answer = await gateway.post("/v1/chat/completions", key, body)
  await answer.text()
  return answer.headers.get("x-error-code")
}
const gateways = { actor: "gateway", address: null, before: null, more: 0 }
const owners = { actor: "owner", address: null, more: 0 }

test("a key's ceiling is told as one change, its pause as the gateway's, and its resumption as the owner's", async () => {
  const person = await gateway.person(10_000)
  const { id, key } = await gateway.key(person, { name: "Shop" })
  await send(person, "PUT", `/keys/${id}/breaker`, { ceiling_micro: 1, action: "stop", pause_minutes: 5 })
  // What changes nothing is nothing.
  await send(person, "PUT", `/keys/${id}/breaker`, { ceiling_micro: 1, action: "stop", pause_minutes: 5 })
  expect([await call(key), await call(key)]).toEqual(["quota.key_paused", "quota.key_paused"])
  await send(person, "POST", `/keys/${id}/resume`)
  await send(person, "POST", `/keys/${id}/resume`)
  await send(person, "PUT", `/keys/${id}/breaker`, { ceiling_micro: 1, action: "warn", pause_minutes: null })
  const of = { subject: id, name: "Shop" }
  expect(await told(person)).toMatchObject([
    {
      ...owners,
      ...of,
      action: "key.changed",
      before: { breaker_stops: true, breaker_pause_minutes: 5 },
      after: { breaker_stops: false, breaker_pause_minutes: null },
    },
    { ...owners, ...of, action: "key.resumed", before: null, after: null },
    { ...gateways, ...of, action: "key.paused", after: { until: expect.any(String) } },
    {
      ...owners,
      ...of,
      action: "key.changed",
      before: { breaker_ceiling_micro: null, breaker_stops: false, breaker_pause_minutes: null },
      after: { breaker_ceiling_micro: 1, breaker_stops: true, breaker_pause_minutes: 5 },
    },
  ])
})

test("the account's is told apart from its keys'; a pause that is over is not resumed", async () => {
  const person = await gateway.person(10_000)
  const { key } = await gateway.key(person)
  await send(person, "PUT", "/account/breaker", { ceiling_micro: 1, action: "stop", factor: 3 })
  expect(await call(key)).toBe("quota.key_paused")
  await send(person, "POST", "/account/breaker/resume")
  await send(person, "PUT", "/account/breaker", { ceiling_micro: 1, action: "stop", factor: 3, pause_minutes: 1 })
  expect(await call(key)).toBe("quota.key_paused")
  await gateway.sql`update accounts set paused_until = now() - interval '1 second' where id = ${person.accountId}`
  await send(person, "POST", "/account/breaker/resume")
  const own = { subject: null, name: null }
  expect(await told(person)).toMatchObject([
    { ...gateways, ...own, action: "account.paused", after: { until: expect.any(String) } },
    { ...owners, ...own, action: "breaker.changed", before: { breaker_pause_minutes: null } },
    { ...owners, ...own, action: "account.resumed" },
    { ...gateways, ...own, action: "account.paused", after: { until: null } },
    {
      ...owners,
      ...own,
      action: "breaker.changed",
      // A warning at five times the usual is there from the start.
      before: { breaker_ceiling_micro: null, breaker_stops: false },
      after: { breaker_ceiling_micro: 1, breaker_stops: true },
    },
  ])
})
