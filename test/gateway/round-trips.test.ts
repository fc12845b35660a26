/** How often a call waits for the database: counted on the way to it, and with a database that is far away. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { type Distance, openDistance } from "../store/distance.ts"
import { startTestGateway, type TestGateway } from "./harness.ts"

let stack: AsyncDisposableStack
let gateway: TestGateway
let way: Distance
let key: string
let model: string
beforeAll(async () => {
  stack = new AsyncDisposableStack()
  gateway = stack.use(
    await startTestGateway({ databaseUrl: async (own) => (way = stack.use(await openDistance(own, 0))).url }),
  )
  model = await gateway.model({ format: "chat", script: "input=1&output=5&ttft=60" })
  key = (await gateway.key(await gateway.person(1_000_000))).key
})
afterAll(() => stack.disposeAsync())

const ask = async (stream: boolean): Promise<void> => {
  const response = await gateway.post("/v1/chat/completions", key, {
    model,
    stream,
    messages: [{ role: "user", content: "Hello" }],
  })
  expect(response.status).toBe(200)
  await response.text()
}

/** What else the process asks falls into some calls and not into others, so the least of several is the call's own. */
async function leastExchanges(calls: number, call: () => Promise<void>): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let n = 0; n < calls; n++) {
    const before = way.exchanges
    await call()
    least = Math.min(least, way.exchanges - before)
  }
  return least
}

test("a call waits for its opening and its settlement, and for nothing else of the database", async () => {
  for (const stream of [false, true]) {
    // The first one of a key reads the key, the account and their leases.
    await ask(stream)
    const exchanges = await leastExchanges(8, () => ask(stream))
    expect(exchanges).toBeGreaterThanOrEqual(1)
    expect(exchanges).toBeLessThanOrEqual(2)
  }
})

test("far from the database calls wait together: commits are larger, and not more", async () => {
  way.moveTo(50)
  await ask(false)
  const before = way.exchanges
  await Promise.all(Array.from({ length: 64 }, (_, n) => ask(n % 2 === 0)))
  // Of 128 openings and settlements.
  expect(way.exchanges - before).toBeLessThan(32)
  way.moveTo(0)
})
