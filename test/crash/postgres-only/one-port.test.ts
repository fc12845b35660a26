/**
 * A rolling deploy on one port: gateways in processes of their own listen on it together, and each is replaced while
 * customers call. The kernel deals out the connections; nobody stands before.
 */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { freePort } from "../../free-port.ts"
import { reconcile } from "../../money/reconcile.ts"
import { type ChildGateway, type Customer, House, modelSeed } from "../child.ts"

/** So many connections that the kernel gives some to each process. */
const CALLERS = 24

let house: House
let env: Record<string, string>
let gateways: ChildGateway[]
beforeEach(async () => {
  house = await House.build([modelSeed("slow", "chat", "input=1&output=20&ttft=250")])
  env = { REUSE_PORT: "true", PORT: String(freePort()) }
  gateways = [await house.start(env), await house.start(env)]
})
afterEach(async () => {
  await Promise.all(gateways.map((gateway) => gateway.kill()))
  await house[Symbol.asyncDispose]()
})

/** What became of a call: whole, or what was wrong with it. */
async function call({ url }: ChildGateway, { key }: Customer, stream: boolean): Promise<string> {
  try {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { Authorization: `Bearer ${key}` },
      body: JSON.stringify({ model: "slow", stream, messages: [{ role: "user", content: "Hello" }] }),
    })
    const text = await response.text()
    const whole = response.ok && (stream ? text.endsWith("data: [DONE]\n\n") : text.endsWith("}"))
    return whole ? "whole" : `${response.status} ${text}`
  } catch (error) {
    return String(error)
  }
}

test("each process is replaced under load, and no connection is refused and no call lost", async () => {
  const [first, second] = gateways as [ChildGateway, ChildGateway]
  expect(second.url).toBe(first.url)
  const customer = await first.customer(1_000_000)
  const outcomes: string[] = []
  const over = new AbortController()
  const callers = Array.from({ length: CALLERS }, async (_, n) => {
    while (!over.signal.aborted) outcomes.push(await call(first, customer, n % 2 === 0))
  })
  /** So many more calls have ended. */
  const calls = async (count: number) => {
    const until = outcomes.length + count
    while (outcomes.length < until) await Bun.sleep(10)
  }
  for (const old of [first, second]) {
    await calls(2 * CALLERS)
    expect(await old.stop()).toBe(0)
    await calls(2 * CALLERS)
    gateways.push(await house.start(env))
  }
  await calls(2 * CALLERS)
  over.abort()
  await Promise.all(callers)
  expect(outcomes.filter((outcome) => outcome !== "whole")).toEqual([])

  await Promise.all(gateways.slice(2).map((gateway) => gateway.stop()))
  await house.books(async (sql) => {
    const [row] = await sql<{ calls: number; processes: number }[]>`
      select count(*)::int as calls, count(distinct l.process_id)::int as processes
      from usage u join leases l on l.id = u.lease_id where u.status = 'ok' and u.charge_micro > 0`
    expect(row?.calls).toBe(outcomes.length)
    // The last one to come may find that all connections are kept by another.
    expect(row?.processes).toBeGreaterThanOrEqual(3)
    await reconcile(sql)
  })
})
