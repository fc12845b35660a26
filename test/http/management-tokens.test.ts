/** What a management token may not do: more than so much in a minute, and anything for an account that is frozen. */
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
  expect(used).toBeGreaterThan(USES_A_MINUTE)
  if (refused === undefined) throw new Error("never refused")
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0)
  await expectFailure(refused, 429, "rate_limit.rpm_exceeded")
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
