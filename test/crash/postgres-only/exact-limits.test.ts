/** A key's limit over several processes with Redis: exact, whichever is asked, and nobody's error while it is away. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { noRedis, startRedis, type TestRedis } from "../../redis/server.ts"
import { type ChildGateway, type Customer, House, modelSeed } from "../child.ts"
import { freePort } from "../../free-port.ts"

let redis: TestRedis
let house: House
const gateways: ChildGateway[] = []
const metricsAt: number[] = []

beforeAll(async () => {
  if (noRedis !== undefined) return
  redis = await startRedis()
  house = await House.build([modelSeed("quick", "chat", "input=1&output=20")], { env: { REDIS_URL: redis.url } })
  // The second one is two workers of one command.
  for (const more of [{}, { WORKERS: "2" }]) {
    const port = freePort()
    metricsAt.push(port)
    gateways.push(await house.start({ METRICS_PORT: String(port), ...more }))
  }
  await untilShares(0)
}, 60_000)
afterAll(async () => {
  await Promise.all(gateways.map((gateway) => gateway.stop()))
  await house?.[Symbol.asyncDispose]()
  await redis?.[Symbol.asyncDispose]()
})

const bySharesAt = async (port: number): Promise<number> => {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  return Number(/^loket_limits_by_shares (\d+)$/m.exec(text)?.[1])
}
const byShares = async () => (await Promise.all(metricsAt.map(bySharesAt))).reduce((sum, each) => sum + each, 0)

/** Of all processes together so many go by shares. */
async function untilShares(count: number): Promise<void> {
  while ((await byShares()) !== count) await Bun.sleep(50)
}

async function call({ url }: ChildGateway, { key }: Customer): Promise<number> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    // So that the kernel chooses a worker for each.
    headers: { Authorization: `Bearer ${key}`, Connection: "close" },
    body: JSON.stringify({ model: "quick", messages: [{ role: "user", content: "Hello" }], max_tokens: 30 }),
  })
  await response.text()
  return response.status
}
/** How many were served, and what became of the others. */
async function calls(count: number, customer: Customer, of = gateways) {
  const statuses = await Promise.all(Array.from({ length: count }, (_, n) => call(of[n % of.length]!, customer)))
  return {
    served: statuses.filter((status) => status === 200).length,
    others: new Set(statuses.filter((status) => status !== 200)),
  }
}

describe.skipIf(noRedis !== undefined)("three processes", () => {
  test("serve exactly 10 of 40 calls of a key of 10 a minute, spread over all or by one alone", async () => {
    const spread = await gateways[0]!.customer(100_000, { requests_per_minute: 10 })
    expect(await calls(40, spread)).toEqual({ served: 10, others: new Set([429]) })
    const alone = await gateways[0]!.customer(100_000, { requests_per_minute: 10 })
    expect(await calls(40, alone, [gateways[0]!])).toEqual({ served: 10, others: new Set([429]) })
    expect(await calls(10, alone, [gateways[1]!])).toEqual({ served: 0, others: new Set([429]) })
  }, 60_000)

  test("and one that starts admit nothing beyond a limit that is used up", async () => {
    const customer = await gateways[0]!.customer(100_000, { requests_per_minute: 10 })
    expect(await calls(10, customer)).toEqual({ served: 10, others: new Set() })
    const started = await house.start()
    try {
      expect(await calls(10, customer, [started])).toEqual({ served: 0, others: new Set([429]) })
    } finally {
      await started.stop()
    }
  }, 60_000)

  test("serve no more than the limit while it is away and after it is back, and nobody hears an error", async () => {
    const customer = await gateways[0]!.customer(100_000, { requests_per_minute: 10 })
    expect((await calls(4, customer)).served).toBe(4)
    redis.pause()
    const { served, others } = await calls(30, customer)
    expect([...others]).toEqual([429])
    await untilShares(3)
    redis.resume()
    await untilShares(0)
    const after = await calls(30, customer)
    expect([...after.others]).toEqual([429])
    const all = 4 + served + after.served
    // A process that had heard nothing of the key before gives it its share. What Redis still does of what it was asked before it
    // stood still may be counted beside that, and leave less.
    expect(all).toBeWithin(4, 14 + 1)
    expect((await calls(10, customer)).served).toBe(0)
  }, 60_000)
})
