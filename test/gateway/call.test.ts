import { afterAll, beforeAll, describe, expect, spyOn, test } from "bun:test"
import { LedgerActor } from "../../src/gateway/actors.ts"
import { type Person, startTestGateway, type TestGateway } from "./harness.ts"

let gateway: TestGateway
let person: Person
let key: string

beforeAll(async () => {
  gateway = await startTestGateway()
  person = await gateway.person(1_000_000)
  key = (await gateway.key(person)).key
})
afterAll(() => gateway[Symbol.asyncDispose]())

const hello = [{ role: "user", content: "Hello" }]
const bodies = {
  chat: (model: string, stream: boolean) => ({ model, stream, messages: hello }),
  messages: (model: string, stream: boolean) => ({ model, stream, max_tokens: 100, messages: hello }),
  responses: (model: string, stream: boolean) => ({ model, stream, input: "Hello" }),
}
const paths = { chat: "/v1/chat/completions", messages: "/v1/messages", responses: "/v1/responses" }

describe.each(["chat", "messages", "responses"] as const)("a call on %s", (format) => {
  test("costs its tokens at the model's rates, and the balance falls by exactly that", async () => {
    const model = await gateway.model({ format, script: "input=100&cached=40&written=20&output=7" })
    const before = await gateway.balance(person)
    const response = await gateway.post(paths[format], key, bodies[format](model, false))
    expect(response.status).toBe(200)
    await response.text()
    const charge = 100 * 1_000 + 40 * 100 + 20 * 1_250 + 7 * 5_000
    expect(response.headers.get("x-cost-rp")).toBe("0.164")
    expect(await gateway.usage(person, response.headers.get("x-request-id") ?? "")).toMatchObject({
      model,
      input_tokens: 100,
      cache_read_tokens: 40,
      cache_write_tokens: 20,
      output_tokens: 7,
      charge_micro: charge,
      status: "ok",
      turns: 1,
    })
    const after = await gateway.balance(person)
    expect(before.balance_micro - after.balance_micro).toBe(charge)
    expect(after.held_micro).toBe(0)
  })

  test("is charged before its stream's last event, and its cost is not in the head", async () => {
    const model = await gateway.model({ format, script: "input=10&output=3" })
    const before = await gateway.balance(person)
    const response = await gateway.post(paths[format], key, bodies[format](model, true))
    expect(response.status).toBe(200)
    expect(response.headers.get("content-type")).toStartWith("text/event-stream")
    expect(response.headers.has("x-cost-rp")).toBeFalse()
    const text = await response.text()
    expect(text).toMatch(/data: \[DONE\]|event: message_stop|event: response\.completed/)
    const after = await gateway.balance(person)
    expect(before.balance_micro - after.balance_micro).toBe(10 * 1_000 + 3 * 5_000)
  })
})

test("while a commit has been tried for more than two seconds nothing is forwarded, and the gateway is not ready", async () => {
  const model = await gateway.model({ format: "chat", script: "input=10&output=3" })
  using view = spyOn(LedgerActor.prototype, "view")
  const at = async (lagMs: number) => {
    view.mockReturnValue({ backlog: 1, lagMs })
    const before = gateway.simulator.calls.length
    const { status } = await gateway.post(paths.chat, key, bodies.chat(model, false))
    const ready = await fetch(new URL("/readyz", gateway.url))
    return [status, gateway.simulator.calls.length - before, ready.status]
  }
  expect(await at(2_000)).toEqual([200, 1, 200])
  expect(await at(2_001)).toEqual([503, 0, 503])
})

test.each([true, false])("a bug in what hears of a call's end holds up nobody's drain: stream %p", async (stream) => {
  const broken = await startTestGateway({
    env: { DRAIN_MS: "100" },
    logged: (line) => {
      if (line.includes('"event":"call"')) throw new Error("a bug")
    },
  })
  const payer = await broken.person(1_000_000)
  const model = await broken.model({ format: "chat", script: "input=10&output=3" })
  const response = await broken.post(paths.chat, (await broken.key(payer)).key, bodies.chat(model, stream))
  await response.text().catch(() => "it breaks off")
  expect(broken.complaints.filter((line) => line.includes("call crashed"))).toHaveLength(1)
  const stopped = broken.stop().then(() => "stopped")
  expect(await Promise.race([stopped, Bun.sleep(20_000).then(() => "it waits for a call that is over")])).toBe(
    "stopped",
  )
  await broken[Symbol.asyncDispose]()
})
