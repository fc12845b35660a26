/** Exact limits as a client and a key's owner see them, on a gateway with Redis. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { startTestGateway, type Person, type TestGateway } from "../gateway/harness.ts"
import { noRedis, startRedis, type TestRedis } from "./server.ts"

let redis: TestRedis
let gateway: TestGateway
let person: Person
beforeAll(async () => {
  if (noRedis !== undefined) return
  redis = await startRedis()
  gateway = await startTestGateway({
    env: { REDIS_URL: redis.url, REDIS_PREFIX: "desk", METRICS_PORT: "0" },
    // More patient than it is, for a machine that is busy with other things.
    redisWaits: { answerMs: 1_000, tellingMs: 1_000 },
  })
  person = await gateway.person(100_000)
  await untilShares(0)
})
afterAll(async () => {
  await gateway?.[Symbol.asyncDispose]()
  await redis?.[Symbol.asyncDispose]()
})

const metrics = async () => await (await fetch(gateway.server.metricsUrl ?? "")).text()
const untilShares = async (by: 0 | 1) => {
  while (!(await metrics()).includes(`\nloket_limits_by_shares ${by}\n`)) await Bun.sleep(20)
}
const hello = [{ role: "user", content: "Hello" }]
const call = async (key: string, headers: Record<string, string> = {}, model = "plain") => {
  const body = { model, messages: hello, max_tokens: 50 }
  const answer = await gateway.post("/v1/chat/completions", key, body, { headers })
  return { status: answer.status, headers: answer.headers, body: (await answer.json()) as Record<string, unknown> }
}
const balance = async (key: string) =>
  await fetch(`${gateway.url}/v1/balance`, { headers: { Authorization: `Bearer ${key}` } })
/** What another process would have counted. */
async function elsewhere(window: string, count: number): Promise<void> {
  const second = Math.floor(Date.now() / 1_000)
  await redis.send("HSET", `desk:${window}`, String(second), String(count * 1_000))
}

describe.skipIf(noRedis !== undefined)("with Redis", () => {
  test("what other processes have counted is in the headers, the balance, a dry run and a refusal", async () => {
    const { id, key } = await gateway.key(person, { requests_per_minute: 10, tokens_per_minute: 10_000 })
    await elsewhere(`${id}:requests`, 6)
    await elsewhere(`${id}:tokens`, 4_000)
    const first = await call(key)
    expect(first.status).toBe(200)
    expect(first.headers.get("x-ratelimit-limit")).toBe("10")
    expect(first.headers.get("x-ratelimit-remaining")).toBe("3")
    expect(Number(first.headers.get("x-ratelimit-reset"))).toBeWithin(1, 61)
    expect(Number(first.headers.get("x-ratelimit-remaining-tokens"))).toBeWithin(5_000, 6_000)

    const told = await balance(key)
    expect(told.headers.get("x-ratelimit-remaining")).toBe("2")
    const { key: ofKey } = (await told.json()) as { key: { usage: { requests: { used: number } } } }
    expect(ofKey.usage.requests.used).toBe(8)

    await redis.send("DEL", `desk:${id}:requests`)
    await elsewhere(`${id}:requests`, 10)
    // Longer ago than what was last heard is taken for.
    await Bun.sleep(1_010)
    const dry = await call(key, { "X-Dry-Run": "true" })
    expect(dry.body["refused_by"]).toMatchObject({ code: "rate_limit.rpm_exceeded" })
    expect(dry.headers.get("x-ratelimit-remaining")).toBe("0")
    const refused = await call(key)
    expect(refused.status).toBe(429)
    expect(refused.headers.get("x-error-code")).toBe("rate_limit.rpm_exceeded")
    expect(Number(refused.headers.get("retry-after"))).toBeWithin(1, 61)
    expect(refused.headers.get("x-ratelimit-remaining")).toBe("0")
  })

  test("tokens used elsewhere refuse a call, whose key and account are as before", async () => {
    const { id, key } = await gateway.key(person, {
      tokens_per_minute: 1_000,
      spending_limit_micro: 5_000_000_000,
      spending_period: "daily",
    })
    const before = await gateway.balance(person)
    await elsewhere(`${id}:tokens`, 999)
    const refused = await call(key)
    expect(refused.headers.get("x-error-code")).toBe("rate_limit.tpm_exceeded")
    expect(Number(refused.headers.get("retry-after"))).toBeWithin(1, 61)
    expect(refused.headers.get("x-key-usage-micro")).toBe("0")
    expect(await gateway.balance(person)).toEqual(before)
  })

  test("what a call has used replaces in Redis what it was estimated at", async () => {
    const { id, key } = await gateway.key(person, { tokens_per_minute: 100_000 })
    const model = await gateway.model({ format: "chat", script: "input=300&output=40" })
    expect((await call(key, {}, model)).status).toBe(200)
    const used = async () =>
      ((await redis.send("HVALS", `desk:${id}:tokens`)) as string[]).reduce(
        (sum, bucket) => sum + Math.floor(Number(bucket) / 1_000),
        0,
      )
    while ((await used()) !== 340) await Bun.sleep(10)
  })

  test("names in Redis are public ids, and nothing of a secret", async () => {
    const { id, key } = await gateway.key(person, { requests_per_minute: 5 })
    expect((await call(key)).status).toBe(200)
    const names = (await redis.send("KEYS", "*")) as string[]
    expect(names).toContain(`desk:${id}:requests`)
    const hash = new Bun.CryptoHasher("sha256").update(key).digest("hex")
    expect(names.join(" ")).not.toContain(hash.slice(0, 12))
    expect(names.join(" ")).not.toContain(key.slice(-12))
  })

  test("a process that starts gets no share before its limits are exact, because it takes no calls yet", async () => {
    const lines: string[] = []
    await using started = await startTestGateway({
      env: { REDIS_URL: redis.url, REDIS_PREFIX: "starting" },
      redisWaits: { answerMs: 1_000, tellingMs: 1_000 },
      logged: (line) => lines.push(line),
    })
    const exact = lines.find((line) => line.includes(`"limits exact"`))
    const [row] = await started.sql<{ since: Date }[]>`select serving_since as since from processes`
    const { time } = JSON.parse(exact ?? "{}") as { time?: string }
    expect(row?.since.getTime()).toBeGreaterThanOrEqual(new Date(time ?? "it was not exact").getTime())
  })

  test("a server that is gone is nobody's error: limits go by the share, and are exact when it is back", async () => {
    const { key } = await gateway.key(person, { requests_per_minute: 4 })
    expect((await call(key)).status).toBe(200)
    redis.pause()
    const answers = await Promise.all(Array.from({ length: 6 }, () => call(key)))
    expect(answers.map(({ status }) => status).filter((status) => status === 200)).toHaveLength(3)
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(3)
    await untilShares(1)
    expect(await metrics()).toMatch(/\nloket_redis_falls_total\{reason="late"\} [1-9]/)
    redis.resume()
    await untilShares(0)
    expect((await call(key)).status).toBe(429)
    const told = gateway.complaints.filter((line) => line.includes("limits by shares"))
    expect(told.length).toBeGreaterThan(0)
  })
})
