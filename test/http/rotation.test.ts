/** A rotated key in calls: two secrets, one key. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"

let gateway: TestGateway
let person: Person
let model: string
beforeAll(async () => {
  gateway = await startTestGateway()
  person = await gateway.person(100_000)
  model = await gateway.model({ format: "chat", script: "input=10&output=2" })
})
afterAll(() => gateway[Symbol.asyncDispose]())

const call = async (key: string) => {
  const body = { model, max_tokens: 16, messages: [{ role: "user", content: "Hello" }] }
  const response = await gateway.post("/v1/chat/completions", key, body)
  const { code } = (await response.json()) as { code?: string }
  return code ?? response.status
}
async function rotate(id: string, body: object = {}) {
  const response = await gateway.dashboard(person, `/keys/${id}/rotate`, { method: "POST", body: JSON.stringify(body) })
  expect(response.status).toBe(201)
  return (await response.json()) as { key: string }
}
const listed = async (id: string) => {
  const { data } = (await (await gateway.dashboard(person, "/keys")).json()) as { data: { id: string }[] }
  return data.find((key) => key.id === id) as unknown
}

test("both secrets work at once, and are counted in one window", async () => {
  const first = await gateway.key(person, { requests_per_minute: 4 })
  expect(await call(first.key)).toBe(200)
  const second = await rotate(first.id)
  const third = await rotate(first.id)
  expect([await call(third.key), await call(second.key), await call(first.key)]).toEqual([200, 200, 200])
  for (const { key } of [first, second, third]) expect(await call(key)).toBe("rate_limit.rpm_exceeded")
  expect(await listed(first.id)).toMatchObject({ usage: { requests: { limit: 4, used: 4 } } })
})

test("what each secret spends is spent of one budget", async () => {
  const charge = 10 * 1_000 + 2 * 5_000
  const limit = 1_000_000
  const first = await gateway.key(person, { spending_limit_micro: limit, spending_period: "daily" })
  expect(await call(first.key)).toBe(200)
  const second = await rotate(first.id)
  expect([await call(second.key), await call(first.key)]).toEqual([200, 200])
  expect(await listed(first.id)).toMatchObject({
    spent_micro: 3 * charge,
    last_used_at: expect.any(String),
    usage: { budget: { limit_micro: limit, used_micro: 3 * charge } },
  })
})

/** A change reaches a live key within a second (decisions §10). */
async function becomesRevoked(key: string): Promise<void> {
  for (let answer = await call(key); answer !== "auth.api_key_revoked"; answer = await call(key)) {
    expect(answer).toBe(200)
    await Bun.sleep(20)
  }
}

test("without an overlap the old secret is revoked, and the new one works", async () => {
  const first = await gateway.key(person)
  expect(await call(first.key)).toBe(200)
  const second = await rotate(first.id, { overlap_s: 0 })
  expect(await call(second.key)).toBe(200)
  await becomesRevoked(first.key)
  expect(await call(second.key)).toBe(200)
})

test("the old secret ends with its overlap, and nobody has to be told", async () => {
  const first = await gateway.key(person)
  const second = await rotate(first.id, { overlap_s: 2 })
  expect(await call(first.key)).toBe(200)
  await becomesRevoked(first.key)
  expect(await call(second.key)).toBe(200)
})

test("who has a secret that leaked and was replaced uses up nothing of the key, and learns nothing of it", async () => {
  const first = await gateway.key(person, {
    requests_per_minute: 3,
    spending_limit_micro: 1_000_000,
    spending_period: "daily",
  })
  const second = await rotate(first.id, { overlap_s: 0 })
  expect(await call(second.key)).toBe(200)
  const body = { model, messages: [{ role: "user", content: "Hello" }] }
  for (let guess = 0; guess < 5; guess++) {
    const { status, headers } = await gateway.post("/v1/chat/completions", first.key, body)
    expect([status, headers.get("x-error-code")]).toEqual([401, "auth.api_key_revoked"])
    expect([...headers.keys()].filter((name) => /^x-(?:ratelimit|key)-/.test(name))).toEqual([])
  }
  expect([await call(second.key), await call(second.key)]).toEqual([200, 200])
})

test("a key is rotated a hundred times a day at most", async () => {
  const first = await gateway.key(person)
  await gateway.sql`insert into key_secrets (secret_hash, key_id, expires_at)
    select decode(md5(${first.id} || n), 'hex'), ${first.id}, now() from generate_series(1, 100) n`
  const refused = await gateway.dashboard(person, `/keys/${first.id}/rotate`, { method: "POST", body: "{}" })
  expect(refused.status).toBe(400)
  expect(await call(first.key)).toBe(200)
  await gateway.sql`update key_secrets set created_at = now() - interval '25 hours' where key_id = ${first.id}`
  const second = await rotate(first.id)
  expect(await call(second.key)).toBe(200)
})

test("a secret that was replaced first is the key's name still: revocation ends all of them", async () => {
  const first = await gateway.key(person)
  const second = await rotate(first.id)
  expect(await call(second.key)).toBe(200)
  await gateway.dashboard(person, `/keys/${first.id}/revoke`, { method: "POST" })
  await becomesRevoked(first.key)
  await becomesRevoked(second.key)
})
