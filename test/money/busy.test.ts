/** The books hold at every moment, not only when nobody calls: they are recomputed in the midst of it. */
import { expect, test } from "bun:test"
import { eventually } from "../contract/calling.ts"
import { startTestGateway } from "../gateway/harness.ts"
import { contradictionsIn } from "./contradictions.ts"

const RUNS = 20
const hello = [{ role: "user", content: "Hello" }]

test("twenty reconciliations under load find nothing", async () => {
  await using gateway = await startTestGateway()
  const fine = await gateway.model({ format: "chat", script: "input=30&output=20&cached=10" })
  const models = [
    fine,
    await gateway.model({ format: "chat", script: "input=30&output=20&pace=5" }),
    await gateway.model({ format: "chat", script: "fault=status&status=503" }),
    await gateway.model({ format: "chat", script: "fault=status&status=429", fallback: [fine] }),
    await gateway.model({ format: "chat", script: "input=50&output=5", input_micro: 200_000_000 }),
  ]
  const people = await Promise.all(
    Array.from({ length: 3 }, async (_, n) => {
      const person = await gateway.person(10_000)
      const budget = { spending_limit_micro: 500_000_000, spending_period: "daily" }
      return { person, key: (await gateway.key(person, n === 0 ? {} : budget)).key }
    }),
  )
  const over = new AbortController()
  let answers = 0
  const caller = async (n: number) => {
    for (let call = n; !over.signal.aborted; call++) {
      const { person, key } = people[call % people.length]!
      const model = models[call % models.length]!
      const body = { model, messages: hello, max_tokens: 16, stream: call % 2 === 0 }
      const response = await gateway.post("/v1/chat/completions", key, body)
      await response.text()
      if (response.status === 200) answers++
      if (call % 10 === 0) await gateway.topUp(person, 10_000)
    }
  }
  const callers = Array.from({ length: 6 }, (_, n) => caller(n))
  const between: number[] = []
  try {
    for (let run = 0; run < RUNS; run++) {
      const before = answers
      expect(await contradictionsIn(gateway.sql, { busy: true })).toEqual({})
      between.push(answers - before)
    }
    await eventually(
      "nobody was answered",
      () => answers,
      (count) => count > 0,
    )
  } finally {
    over.abort()
    await Promise.all(callers)
  }
  // It was busy meanwhile.
  expect(between.some((count) => count > 0)).toBeTrue()
  expect(await contradictionsIn(gateway.sql, { busy: true })).toEqual({})
})
