/** A leaked key's calls on two processes, one of which is killed: together they never pass the ceiling of ten minutes. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { reconcile } from "../../money/reconcile.ts"
import { type ChildGateway, type Customer, House, modelSeed } from "../child.ts"

let house: House
let gateways: ChildGateway[]
beforeAll(async () => {
  const rates = { input_micro: 0, output_micro: 50_000_000 }
  house = await House.build([
    modelSeed("quick", "chat", "input=1&output=16", rates),
    modelSeed("slow", "chat", "input=1&output=16&pace=200", rates),
  ])
  gateways = await Promise.all([house.start(), house.start()])
}, 120_000)
afterAll(async () => {
  for (const gateway of gateways) await gateway.kill()
  await house[Symbol.asyncDispose]()
})

const CALL = 800_000_000
const dashboard = async (gateway: ChildGateway, { token }: Customer, method: string, path: string, body?: object) =>
  await fetch(gateway.url + path, {
    method,
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    ...(body && { body: JSON.stringify(body) }),
  })

async function ask(gateway: ChildGateway, { key }: Customer, model: string): Promise<number | string> {
  try {
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { Authorization: `Bearer ${key}` },
      body: JSON.stringify({ model, max_tokens: 16, messages: [{ role: "user", content: "Hello" }] }),
    })
    await response.text()
    return response.status === 200 ? 200 : (response.headers.get("x-error-code") ?? "")
  } catch {
    return "gone"
  }
}

/** Twenty-five at once at each process, each again and again until it is told not to, or its process is gone. */
async function burn(customer: Customer, model: string): Promise<void> {
  const one = async (gateway: ChildGateway) => {
    for (let n = 0; n < 400; n++) {
      const outcome = await ask(gateway, customer, model)
      if (outcome === "quota.key_paused" || outcome === "gone") return
      if (outcome !== 200) await Bun.sleep(50)
    }
    throw new Error("never stopped")
  }
  await Promise.all(gateways.flatMap((gateway) => Array.from({ length: 25 }, () => one(gateway))))
}

const charged = async ({ accountId }: Customer): Promise<number> => {
  const rows = await house.books(
    (sql) => sql<{ sum: bigint }[]>`
    select coalesce(sum(charge_micro), 0)::bigint as sum from usage where account_id = ${accountId}`,
  )
  return Number(rows[0]?.sum)
}
const differences = async () => await house.books((sql) => reconcile(sql))

test("two processes spend one ceiling between them, and both refuse from then on", async () => {
  const [first, second] = gateways as [ChildGateway, ChildGateway]
  const customer = await first.customer(1_000_000)
  const breaker = { ceiling_micro: 12 * CALL + 1, action: "stop" }
  expect((await dashboard(first, customer, "PUT", `/keys/${customer.keyId}/breaker`, breaker)).status).toBe(200)
  // In force at the other one too, within a second.
  await Bun.sleep(1_000)
  await burn(customer, "quick")
  expect(await charged(customer)).toBe(12 * CALL)
  expect([await ask(first, customer, "quick"), await ask(second, customer, "quick")]).toEqual([
    "quota.key_paused",
    "quota.key_paused",
  ])
  // The night goes by.
  await house.books((sql) => sql`update spending_minutes set minute = minute - interval '8 hours'`)
  await burn(customer, "quick")
  expect(await charged(customer)).toBe(12 * CALL)
  expect((await dashboard(second, customer, "POST", `/keys/${customer.keyId}/resume`)).status).toBe(204)
  await Bun.sleep(1_000)
  expect(await ask(first, customer, "quick")).toBe(200)
  await burn(customer, "quick")
  const all = await charged(customer)
  expect(all).toBeGreaterThan(12 * CALL)
  expect(all).toBeLessThanOrEqual(24 * CALL)
  await differences()
}, 120_000)

test("a process that is killed with calls under way gives back what it held, and what it charged still counts", async () => {
  const [first, second] = gateways as [ChildGateway, ChildGateway]
  const customer = await second.customer(1_000_000)
  await dashboard(second, customer, "PUT", "/account/breaker", {
    ceiling_micro: 10 * CALL,
    action: "stop",
    factor: null,
  })
  await Bun.sleep(1_000)
  expect([await ask(first, customer, "quick"), await ask(second, customer, "quick")]).toEqual([200, 200])
  const burning = burn(customer, "slow")
  await Bun.sleep(1_500)
  await first.kill()
  await burning
  await burn(customer, "quick")
  // All that is left after its calls were ended for it, which takes some seconds.
  expect(await charged(customer)).toBeLessThanOrEqual(10 * CALL)
  expect(await ask(second, customer, "quick")).toBe("quota.key_paused")
  while ((await house.books((sql) => sql`select 1 from openings where account_id = ${customer.accountId}`)).length > 0)
    await Bun.sleep(200)
  expect(await charged(customer)).toBeLessThanOrEqual(10 * CALL)
  await differences()
}, 120_000)
