/**
 * Two gateways in processes of their own on one database: rate windows and model caps are theirs together, and the
 * survivor's alone when one is killed.
 */
import { afterEach, beforeEach, expect, test } from "bun:test"
import type { Simulator } from "../../../src/simulator/simulator.ts"
import { type ChildGateway, type Customer, House, modelSeed } from "../../crash/child.ts"

const CAP = 5
const TTFT_MS = 500

let house: House
let one: ChildGateway
let other: ChildGateway
/** Its limit is only there to be told. */
let probe: Customer
beforeEach(async () => {
  house = await House.build([
    modelSeed("quick", "chat", "input=1&output=1"),
    { ...modelSeed("capped", "chat", `input=1&output=1&ttft=${TTFT_MS}`), max_concurrency: CAP },
  ])
  const patient = { CAPACITY_WAIT_MS: "30000" }
  one = await house.start(patient)
  other = await house.start(patient)
  probe = await one.customer(10_000, { requests_per_minute: 1_000 })
  for (const gateway of [one, other]) await shared(gateway, 2)
})
afterEach(async () => {
  await Promise.all([one.kill(), other.kill()])
  await house[Symbol.asyncDispose]()
})

/** Waits until a gateway admits the share of one in `count` processes. */
async function shared(gateway: ChildGateway, count: 1 | 2): Promise<void> {
  for (;;) {
    const response = await fetch(`${gateway.url}/v1/models`, { headers: { Authorization: `Bearer ${probe.key}` } })
    await response.text()
    const remaining = Number(response.headers.get("x-ratelimit-remaining"))
    if (remaining < 500 === (count === 2)) return
    await Bun.sleep(20)
  }
}

async function call(gateway: ChildGateway, { key }: Customer, model: string): Promise<Response> {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}` },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] }),
  })
  await response.text()
  return response
}

/** Calls until one is refused for the window; how many passed. */
async function passed(gateway: ChildGateway, customer: Customer): Promise<number> {
  for (let count = 0; ; count++) {
    const response = await call(gateway, customer, "quick")
    expect(response.headers.get("x-ratelimit-limit")).toBe("60")
    if (response.ok) continue
    expect(response.headers.get("x-error-code")).toBe("rate_limit.rpm_exceeded")
    expect(response.headers.get("x-ratelimit-remaining")).toBe("0")
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0)
    return count
  }
}

test("a key's requests per minute pass half here and half there; a survivor has the whole, less what it counted", async () => {
  const customer = await one.customer(10_000, { requests_per_minute: 60 })
  expect(await Promise.all([passed(one, customer), passed(other, customer)])).toEqual([30, 30])
  await other.kill()
  await shared(one, 1)
  expect(await passed(one, customer)).toBe(30)
}, 60_000)

/** The most calls that the backend had at once. Each is certainly there for the greater part of its time to first token. */
function mostAtOnce({ calls }: Simulator): number {
  const starts = calls.map(({ startedAt }) => startedAt)
  return Math.max(...starts.map((at) => starts.filter((start) => start <= at && at < start + TTFT_MS - 50).length))
}

test("a model's cap is one cap for both, and the survivor's alone: never more calls are at the backend", async () => {
  const customer = await one.customer(10_000)
  const storm = (gateways: readonly ChildGateway[]) =>
    Promise.all(gateways.flatMap((gateway) => Array.from({ length: 10 }, () => call(gateway, customer, "capped"))))
  const both = await storm([one, other])
  expect(both.map(({ status }) => status)).toEqual(both.map(() => 200))
  expect(mostAtOnce(house.simulator)).toBe(CAP)
  await other.kill()
  await shared(one, 1)
  house.simulator.reset()
  const alone = await storm([one])
  expect(alone.map(({ status }) => status)).toEqual(alone.map(() => 200))
  expect(mostAtOnce(house.simulator)).toBe(CAP)
}, 60_000)
