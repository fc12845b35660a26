/** Two gateways on one database, as in a rolling deploy. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { startTestGateway, type TestGateway } from "../../gateway/harness.ts"
import { reconcile } from "../reconcile.ts"

const Rp = 1_000_000
/** A thousand rupiah for 100 tokens of answer; input is next to nothing. */
const dear = { output_micro: 10_000_000, max_output_tokens: 100, max_concurrency: 1_000 }

let old: TestGateway
let young: TestGateway
beforeEach(async () => {
  let shared = ""
  old = await startTestGateway({ databaseUrl: (url) => (shared = url) })
  young = await startTestGateway({ databaseUrl: () => shared })
})
afterEach(async () => {
  await reconcile(old.sql)
  await young[Symbol.asyncDispose]()
  await old[Symbol.asyncDispose]()
})

async function ask(gateway: TestGateway, key: string, model: string): Promise<{ status: number; costMicro: number }> {
  const body = { model, messages: [{ role: "user", content: "Hello" }] }
  const response = await gateway.post("/v1/chat/completions", key, body)
  await response.text()
  return { status: response.status, costMicro: Math.round(Number(response.headers.get("x-cost-rp") ?? 0) * Rp) }
}

test("they spend of one balance at once, and not more than it has", async () => {
  const person = await old.person(10_000)
  const { key } = await old.key(person)
  const model = await old.model({ format: "chat", script: "input=8&output=100&ttft=20", ...dear })
  await young.server.refreshCatalogue()
  let sum = 0
  for (let round = 0; round < 3; round++) {
    const answers = await Promise.all(Array.from({ length: 40 }, (_, n) => ask(n % 2 === 0 ? old : young, key, model)))
    for (const answer of answers) expect(answer.status).toBeOneOf([200, 402])
    sum += answers.reduce((total, answer) => total + answer.costMicro, 0)
    await old.topUp(person, 10_000)
  }
  expect(sum).toBeLessThanOrEqual(30_000 * Rp)
  expect(sum).toBeGreaterThan(20_000 * Rp)
  expect((await young.balance(person)).balance_micro).toBe(40_000 * Rp - sum)
})

test("what the old one leaves when it goes, the young one spends", async () => {
  const person = await old.person(10_000)
  const { key } = await old.key(person)
  const model = await old.model({ format: "chat", script: "input=0&output=50", ...dear })
  await young.server.refreshCatalogue()
  expect(await ask(old, key, model)).toEqual({ status: 200, costMicro: 500 * Rp })
  await old.server.stop()
  expect(await ask(young, key, model)).toEqual({ status: 200, costMicro: 500 * Rp })
  expect((await young.balance(person)).balance_micro).toBe(9_000 * Rp)
})
