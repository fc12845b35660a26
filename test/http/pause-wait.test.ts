/** A key that its owner's ceiling has paused says how long that lasts, where that is known (decisions §4). */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { expectFailure } from "../contract/expect-failure.ts"
import { type Init, type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"

let gateway: TestGateway
beforeAll(async () => {
  gateway = await startTestGateway()
})
afterAll(() => gateway[Symbol.asyncDispose]())

const ask = (key: string, init: Init = {}) =>
  gateway.post("/v1/chat/completions", key, { model: "plain", messages: [{ role: "user", content: "Hello" }] }, init)

/** One that a first call has paused. */
async function paused(path: (id: string) => string, breaker: object) {
  const person: Person = await gateway.person(10_000)
  const { id, key } = await gateway.key(person)
  const body = JSON.stringify({ ceiling_micro: 1, action: "stop", ...breaker })
  const set = await gateway.dashboard(person, path(id), { method: "PUT", body })
  if (!set.ok) throw new Error(await set.text())
  await expectFailure(await ask(key), 403, "quota.key_paused")
  return key
}

const ofKey = (id: string) => `/keys/${id}/breaker`

test.each([
  ["a key's", ofKey, {}],
  ["an account's", () => "/account/breaker", { factor: 3 }],
] as const)("%s pause of five minutes is waited for, in a call and in a count of tokens", async (_, path, more) => {
  const key = await paused(path, { ...more, pause_minutes: 5 })
  const count = gateway.post("/v1/messages/count_tokens", key, {})
  for (const response of [await ask(key), await count]) {
    const { retryAfterS } = await expectFailure(response, 403, "quota.key_paused")
    expect(retryAfterS).toBeWithin(240, 301)
  }
  const dry = await ask(key, { headers: { "X-Dry-Run": "true" } })
  const { refused_by } = (await dry.json()) as { refused_by: { code: string; retry_after_s: number | null } }
  expect(refused_by.code).toBe("quota.key_paused")
  expect(refused_by.retry_after_s).toBeWithin(240, 301)
})

test("one that lasts until the key is resumed has no wait", async () => {
  const key = await paused(ofKey, { pause_minutes: null })
  const { retryAfterS } = await expectFailure(await ask(key), 403, "quota.key_paused")
  expect(retryAfterS).toBeUndefined()
})
