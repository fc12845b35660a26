/** What a key feels of another one of its account that asks for far more than there is (decisions §5, §13.17). */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { callsOf, eventually } from "./calling.ts"
import { RawClient } from "./raw-client.ts"
import { covers } from "./rows.ts"

const CAP = 8
/** The queue is four times the cap. */
const WAITING = 4 * CAP
const MANY = 1_000
const FEW = 10

let gateway: TestGateway

beforeAll(async () => {
  gateway = await startTestGateway({ env: { CAPACITY_WAIT_MS: "60000" } })
})
afterAll(() => gateway[Symbol.asyncDispose]())

describe(covers("5.capacity", "13.17"), () => {
  test("ten calls of a key are all served in their turn while a thousand of another overflow the queue", async () => {
    const payer = await gateway.person(5_000_000)
    const [many, few] = await Promise.all([gateway.key(payer), gateway.key(payer)])
    const model = await gateway.model({ format: "chat", script: "ttft=400", max_concurrency: CAP })
    // Both are known before it begins: what is tried is their turn, and not how long a key takes to read.
    for (const { key } of [many, few]) await (await gateway.post("/v1/chat/completions", key, plain)).text()
    const order: { readonly of: "many" | "few"; readonly status: number | undefined; readonly answer: string }[] = []
    // Sockets of their own: a client in this process makes no more than 256 requests at once.
    const call = async (of: "many" | "few", { key }: { readonly key: string }) => {
      const client = new RawClient(gateway.url, key, { model })
      await client.over
      order.push({ of, status: client.status, answer: client.text })
    }
    const served = (of: "many" | "few") => order.filter((end) => end.of === of && end.status === 200)
    const first = Array.from({ length: MANY }, () => call("many", many))
    await eventually(
      "the queue overflows",
      () => order.filter(({ status }) => status === 429).length,
      (refused) => refused > 0,
    )
    const before = served("many").length
    await Promise.all(Array.from({ length: FEW }, () => call("few", few)))
    const meanwhile = served("many").length - before
    expect(order.filter(({ of }) => of === "few").map(({ status }) => status)).toEqual(Array(FEW).fill(200))
    // Those that had a slot already and those whose turns lay between theirs, and not the queue that came before them.
    expect(meanwhile).toBeLessThanOrEqual(CAP + FEW + CAP)
    await Promise.all(first)
    const refused = order.filter(({ status }) => status !== 200)
    expect(order).toHaveLength(MANY + FEW)
    for (const { of, status, answer } of refused) {
      expect([of, status]).toEqual(["many", 429])
      expect(answer).toMatch(/\r\nX-Error-Code: gateway\.capacity\r\n/i)
      expect(answer).toMatch(/\r\nRetry-After: 1\r\n/i)
    }
    // The first key has what is left: whoever had a slot or a place in the queue, but for places that went to the second.
    expect(served("many").length).toBeGreaterThanOrEqual(CAP + WAITING - FEW)
    expect(callsOf(gateway, model)).toHaveLength(served("many").length + FEW)
    expect((await gateway.balance(payer)).held_micro).toBe(0)
  })
})

const plain = { model: "plain", messages: [{ role: "user", content: "Hello" }] }
