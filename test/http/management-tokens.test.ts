/** A management token at its edges: how often it is used, on a frozen account, and beside a parent that has no limits, or less than before. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { USES_A_MINUTE } from "../../src/accounts/children.ts"
import { expectFailure } from "../contract/expect-failure.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"

let gateway: TestGateway
beforeAll(async () => {
  gateway = await startTestGateway()
})
afterAll(() => gateway[Symbol.asyncDispose]())

async function newToken(person: Person, keyId: string): Promise<string> {
  const body = JSON.stringify({ name: "class" })
  const made = await gateway.dashboard(person, `/keys/${keyId}/tokens`, { method: "POST", body })
  return ((await made.json()) as { token: string }).token
}
const manage = (token: string, method = "GET", path = "", body?: object) =>
  fetch(`${gateway.url}/v1/keys${path}`, {
    method,
    headers: { Authorization: `Bearer ${token}` },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })

test("it is used 300 times a minute, whatever it asks for, and another one of the same key is not used up by it", async () => {
  const person = await gateway.person()
  const { id } = await gateway.key(person)
  const token = await newToken(person, id)
  expect(USES_A_MINUTE).toBe(300)
  let [used, refused] = [0, undefined as Response | undefined]
  // More than 300 where a machine takes longer than a minute for them.
  for (; refused === undefined && used < 3_000; used += 20) {
    const answers = await Promise.all(Array.from({ length: 20 }, () => manage(token, "GET", "/none")))
    refused = answers.find(({ status }) => status !== 404)
  }
  if (refused === undefined) throw new Error("never refused")
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0)
  await expectFailure(refused, 429, "rate_limit.rpm_exceeded")
  expect(used).toBeGreaterThan(USES_A_MINUTE)
  expect((await manage(await newToken(person, id))).status).toBe(200)
})

test("of an account that is frozen it reads, makes, changes and revokes nothing", async () => {
  const person = await gateway.person()
  const { id: parent } = await gateway.key(person)
  const token = await newToken(person, parent)
  const { id } = (await (await manage(token, "POST", "", { name: "pupil" })).json()) as { id: string }
  await gateway.freeze(person, "a test")
  for (const [method, path, body] of [
    ["GET", "", undefined],
    ["GET", `/${id}`, undefined],
    ["POST", "", { name: "x" }],
    ["PATCH", `/${id}`, { name: "x" }],
    ["DELETE", `/${id}`, undefined],
  ] as const)
    await expectFailure(await manage(token, method, path, body), 403, "auth.account_frozen")
  const rows = await gateway.sql`select name, revoked_at from api_keys where parent_id = ${parent}`
  expect([...rows]).toEqual([{ name: "pupil", revoked_at: null }])
})

test("a child has limits where its parent has none, and a fallback where its parent has one", async () => {
  const person = await gateway.person()
  const token = await newToken(person, (await gateway.key(person)).id)
  const limits = {
    requests_per_minute: 1,
    tokens_per_minute: 1,
    spending_limit_micro: 1,
    spending_period: "total",
    expires_at: "2090-01-01T00:00:00.000Z",
    models: ["plain"],
    endpoints: ["chat"],
    networks: ["10.0.0.0/8"],
    max_rate_micro: 1,
    fallback: "any",
  }
  const made = await manage(token, "POST", "", { name: "pupil", ...limits })
  expect([made.status, await made.json()]).toEqual([201, expect.objectContaining(limits)])
})

test("a child that has more than its parent has by now is changed in all else, and not to as much again", async () => {
  const person = await gateway.person()
  const budget = { spending_limit_micro: 10, spending_period: "monthly" }
  const { id: parent } = await gateway.key(person, budget)
  const token = await newToken(person, parent)
  const made = await manage(token, "POST", "", { name: "pupil", ...budget })
  const { id } = (await made.json()) as { id: string }
  const lower = { method: "PATCH", body: JSON.stringify({ spending_limit_micro: 5 }) }
  expect((await gateway.dashboard(person, `/keys/${parent}`, lower)).status).toBe(200)
  const renamed = await manage(token, "PATCH", `/${id}`, { name: "Ani" })
  expect([renamed.status, await renamed.json()]).toEqual([
    200,
    expect.objectContaining({ name: "Ani", spending_limit_micro: 10 }),
  ])
  await expectFailure(await manage(token, "PATCH", `/${id}`, budget), 400, "request.invalid")
})
