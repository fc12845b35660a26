/**
 * Two gateways in processes of their own on one database. One is killed and started again in the midst of far more
 * calls than there is money for.
 */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { type ChildGateway, type Customer, House, modelSeed } from "../../crash/child.ts"
import { reconcile } from "../reconcile.ts"

const PRICE_MICRO = 200_000_000
const CALLS_PAID_FOR = 500
const CALLS = 2_000
const CALLERS = 40

let house: House
let gateways: ChildGateway[]
beforeEach(async () => {
  // Worst, least and actual cost of a call are the same: sixteen tokens of answer.
  const rates = { input_micro: 0, output_micro: PRICE_MICRO / 16, max_output_tokens: 16 }
  house = await House.build([
    { ...modelSeed("exact", "chat", "input=0&output=16&ttft=10", rates), max_concurrency: 1_000 },
  ])
  gateways = [await house.start(), await house.start()]
})
afterEach(async () => {
  await Promise.all(gateways.map((gateway) => gateway.kill()))
  await house[Symbol.asyncDispose]()
})

/** The answer's status; nothing when nobody answered. */
async function call(gateway: ChildGateway, { key }: Customer): Promise<number | undefined> {
  try {
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { Authorization: `Bearer ${key}` },
      body: JSON.stringify({ model: "exact", messages: [{ role: "user", content: "Hello" }] }),
    })
    await response.json()
    return response.status
  } catch {
    return undefined
  }
}

test("exactly what the money pays for is answered, though one of two is killed in the midst of it", async () => {
  const [steady, fragile] = gateways as [ChildGateway, ChildGateway]
  const customer = await steady.customer((CALLS_PAID_FOR * PRICE_MICRO) / 1_000_000)
  const told: (number | undefined)[] = []
  let current = fragile
  let thrown = 0
  const callers = Array.from({ length: CALLERS }, async (_, n) => {
    while (thrown++ < CALLS) told.push(await call(n % 2 === 0 ? steady : current, customer))
  })
  while (told.length < CALLS_PAID_FOR / 5) await Bun.sleep(5)
  await fragile.kill()
  current = await house.start()
  gateways.push(current)
  await Promise.all(callers)
  const answered = () => told.filter((status) => status === 200).length
  // A database that the dead one's lock has not left yet is no reason to refuse anything but money.
  for (const status of told) expect(status).toBeOneOf([200, 402, undefined])

  // What the dead one had leased is free when it has been closed; then the rest is spent, from either side.
  for (let n = 0; (await steady.balanceMicro(customer)) > 0; n++) {
    if (n > 2_000) throw new Error(`${await steady.balanceMicro(customer)} micro cannot be spent`)
    const status = await call(n % 2 === 0 ? steady : current, customer)
    told.push(status)
    if (status === 402) await Bun.sleep(100)
  }
  expect(await call(steady, customer)).toBe(402)
  expect(await call(current, customer)).toBe(402)
  await house.books(async (sql) => {
    const [row] = await sql<{ charged: number; charges: bigint }[]>`
      select count(*)::int as charged, sum(charge_micro)::bigint as charges from usage where charge_micro > 0`
    expect(row).toEqual({ charged: CALLS_PAID_FOR, charges: BigInt(CALLS_PAID_FOR * PRICE_MICRO) })
    await reconcile(sql)
  })
  // Who was answered was charged; a call that was charged and cut off before its answer left is at most one a caller.
  expect(answered()).toBeGreaterThanOrEqual(CALLS_PAID_FOR - CALLERS)
  expect(answered()).toBeLessThanOrEqual(CALLS_PAID_FOR)
})
