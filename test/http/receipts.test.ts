/** Receipts: whoever has the export alone can recompute each charge by hand, and what the balance lost. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"

let gateway: TestGateway
beforeAll(async () => {
  gateway = await startTestGateway()
})
afterAll(() => gateway[Symbol.asyncDispose]())

const hello = [{ role: "user", content: "Hello" }]

async function ask(person: Person, key: string, model: string, more: object = {}): Promise<void> {
  const body = { model, messages: hello, max_tokens: 100, ...more }
  const response = await gateway.post("/v1/chat/completions", key, body)
  await response.text()
  await gateway.usage(person, response.headers.get("x-request-id") ?? "")
}

/** No cell of the export holds a comma or a quote here. */
async function exported(person: Person): Promise<Record<string, string>[]> {
  const text = await (await gateway.dashboard(person, "/usage/export.csv")).text()
  const [head = [], ...rows] = text
    .trim()
    .split("\r\n")
    .map((line) => line.split(","))
  return rows.map((cells) => Object.fromEntries(head.map((name, at) => [name, cells[at] ?? ""])))
}

const buckets = ["input", "output", "cache_read", "cache_write"] as const
const number = (row: Record<string, string>, name: string): bigint => {
  expect(row[name]).toMatch(/^\d+$/)
  return BigInt(row[name] ?? "")
}

test("each charge is its tokens times its rates, less what was absorbed, by the export alone", async () => {
  const person = await gateway.person(10_000)
  const { id, key } = await gateway.key(person)
  const cached = { format: "chat", script: "input=100&cached=40&written=20&output=7" } as const
  await ask(person, key, await gateway.model(cached))
  await ask(person, key, await gateway.model(cached), { stream: true })
  await ask(person, key, await gateway.model({ format: "chat", script: "fault=status&status=503" }))
  const throttled = await gateway.model({
    format: "chat",
    script: "fault=status&status=429",
    fallback: [await gateway.model({ format: "chat", script: "input=3&output=5", input_micro: 77, output_micro: 999 })],
  })
  await ask(person, key, throttled)
  // A backend counts more than was estimated, and more than there is.
  const dear = { format: "chat", script: "input=150&output=5", input_micro: 500_000_000 } as const
  await ask(person, key, await gateway.model(dear), { max_tokens: 16 })

  const rows = await exported(person)
  expect(rows.map(({ status }) => status)).toEqual(["ok", "ok", "upstream_error", "ok", "ok"])
  let charged = 0n
  for (const row of rows) {
    const amounts = buckets.map((bucket) => {
      const due = number(row, `${bucket}_tokens`) * number(row, `${bucket}_rate_micro`)
      expect(number(row, `${bucket}_amount_micro`)).toBe(due)
      return due
    })
    const charge = amounts.reduce((sum, amount) => sum + amount) - number(row, "absorbed_micro")
    expect(number(row, "charge_micro")).toBe(charge)
    charged += charge
    expect(row).toMatchObject({ key_id: id, price_id: expect.stringMatching(/^\d+$/), turns: "1" })
    expect(row["attempts"]).toMatch(/^[1-9]\d*$/)
    expect(row["duration_ms"]).toMatch(/^\d+$/)
    expect(new Date(row["created_at"] ?? "").toISOString()).toBe(row["created_at"] ?? "")
  }
  expect(rows.filter((row) => number(row, "absorbed_micro") > 0n)).toHaveLength(1)
  expect(10_000_000_000n - charged).toBe(BigInt((await gateway.balance(person)).balance_micro))

  // The listed receipt says the same as the export.
  const { data } = (await (await gateway.dashboard(person, "/usage")).json()) as { data: Record<string, number>[] }
  expect(data.map((row) => BigInt(row["charge_micro"] ?? -1))).toEqual(rows.map((row) => number(row, "charge_micro")))
})
