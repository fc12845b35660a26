/** Calls that carry an `Idempotency-Key`, whose process is killed at any moment, and that are sent again until they have their answer. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { type ChildGateway, type Customer, House, modelSeed } from "./child.ts"

const MODEL = "quick"
const ROUNDS = 6
const CALLS = 12

let house: House
let gateway: ChildGateway
let customer: Customer

beforeAll(async () => {
  house = await House.build([modelSeed(MODEL, "chat", "input=10&output=20&pace=10&ttft=20")])
  gateway = await house.start()
  customer = await gateway.customer(100_000)
})
afterAll(async () => {
  await gateway.kill()
  await house[Symbol.asyncDispose]()
})

type Told = { readonly code: string; readonly id: string; readonly original: string | undefined }

/** What one time of sending it comes to; undefined where the connection broke. */
async function send(name: string, stream: boolean): Promise<Told | undefined> {
  try {
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: {
        Authorization: `Bearer ${customer.key}`,
        "Content-Type": "application/json",
        "Idempotency-Key": name,
      },
      body: JSON.stringify({ model: MODEL, stream, messages: [{ role: "user", content: name }] }),
    })
    const text = await response.text()
    const id = response.headers.get("x-request-id") ?? ""
    const original = response.headers.get("idempotency-original-request-id") ?? undefined
    if (response.status !== 200) return { code: (JSON.parse(text) as { code: string }).code, id, original }
    return !stream || text.includes("[DONE]") ? { code: "whole", id, original } : undefined
  } catch {
    return undefined
  }
}

test("each is charged once, and whoever is told that it was made can read what it cost", async () => {
  const last = new Map<string, Told>()
  for (let round = 0; round < ROUNDS; round++) {
    const names = Array.from({ length: CALLS }, (_, n) => `name-${round}-${n}`)
    const ended = (told: Told | undefined) => told?.code === "whole" || told?.code === "idempotency.finished"
    const before = house.simulator.calls.length
    const sending = names.map(async (name, n) => {
      await Bun.sleep(n * 25)
      const told = await send(name, n % 2 === 0)
      if (told !== undefined && ended(told)) last.set(name, told)
    })
    // The last of those that were asked of the backend are in their middle.
    while (house.simulator.calls.length - before < 1 + 2 * round) await Bun.sleep(1)
    await gateway.kill()
    await Promise.all(sending)
    gateway = await house.start()
    for (const name of names) {
      for (;;) {
        const told = await send(name, names.indexOf(name) % 2 === 0)
        // Whoever has had the answer is told which call it was; all others have it now.
        if (told !== undefined && ended(told)) {
          if (last.has(name)) expect([name, told.code]).toEqual([name, "idempotency.finished"])
          last.set(name, told)
          break
        }
        await Bun.sleep(100)
      }
    }
  }
  await gateway.stop()
  const rows = await house.books(
    (sql) => sql<{ request_id: string; status: string; charge: bigint }[]>`
      select request_id, status, charge_micro as charge from usage where part = 0 and account_id = ${customer.accountId}`,
  )
  const charged = new Map(rows.filter(({ charge }) => charge > 0n).map((row) => [row.request_id, row]))
  expect(charged.size).toBe(ROUNDS * CALLS)
  const paid = [...last.values()].map(({ id, original }) => original ?? id)
  expect(new Set(paid)).toEqual(new Set(charged.keys()))
  // Otherwise nothing was killed in its middle.
  expect(rows.length).toBeGreaterThan(charged.size)
})
