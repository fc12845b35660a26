/** A process that stands still: nobody's lateness is evidence (decisions §13.1). */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { standStill } from "../gateway/binary.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { ask, callsOf, ending, eventually, requestId, rowsOf } from "./calling.ts"
import { covers } from "./rows.ts"

const SETTLE_DEADLINE_MS = 700

let gateway: TestGateway
let person: Person
let key: string

beforeAll(async () => {
  gateway = await startTestGateway({
    env: {
      SETTLE_DEADLINE_MS: String(SETTLE_DEADLINE_MS),
      UPSTREAM_IDLE_TIMEOUT_MS: "700",
      UPSTREAM_START_TIMEOUT_MS: "700",
      CAPACITY_WAIT_MS: "700",
    },
  })
  person = await gateway.person(10_000_000)
  key = (await gateway.key(person)).key
})
afterAll(() => gateway[Symbol.asyncDispose]())

/** Where the gateway runs in this process, the whole event loop stands still with it. */
const standStillHere = (ms: number) => Bun.sleepSync(ms)

/** Again and again, in the turn in which a connection is read, after which timers come first. */
const standsStill = (ms: number) => {
  const { pid } = gateway
  if (pid !== undefined) return { once: () => standStill(pid, ms), stop: async () => {} }
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => (standStillHere(ms), new Response("")) })
  return { once: () => fetch(server.url).then((response) => response.text()), stop: () => server.stop(true) }
}

describe(covers("13.1"), () => {
  test("streams that end while the process stands still are charged, each once, and none is given away", async () => {
    const still = standsStill(SETTLE_DEADLINE_MS + 300)
    const model = await gateway.model({ format: "chat", script: "input=10&output=12&pace=25" })
    const before = (await gateway.balance(person)).balance_micro
    const answers = await Promise.all(
      Array.from({ length: 16 }, async (_, n) => {
        await Bun.sleep(n * 12)
        return await ask(gateway, key, "chat", model, { stream: true })
      }),
    )
    const reading = answers.map(async (response) => ({ text: await response.text(), id: requestId(response) }))
    for (let n = 0; n < 4; n++) {
      await Bun.sleep(30)
      await still.once()
    }
    for (const { text, id } of await Promise.all(reading)) {
      expect(text).toMatch(ending.chat)
      expect(await rowsOf(gateway, id)).toMatchObject([{ status: "ok", charge_micro: 70_000n }])
    }
    expect((await gateway.balance(person)).balance_micro).toBe(before - 16 * 70_000)
    await still.stop()
  })

  test("a backend that is silent for as long as the process stands still has not fallen silent", async () => {
    const still = standsStill(1_500)
    const model = await gateway.model({ format: "chat", script: "input=10&output=30&pace=30" })
    const response = await ask(gateway, key, "chat", model, { stream: true })
    const text = response.text()
    for (let n = 0; n < 2; n++) {
      await Bun.sleep(60)
      await still.once()
    }
    expect(await text).toMatch(ending.chat)
    expect(await rowsOf(gateway, requestId(response))).toMatchObject([{ status: "ok" }])
    await still.stop()
  })

  test("a call that waits for a slot is not refused for the time in which nobody could give it one", async () => {
    const still = standsStill(1_500)
    const model = await gateway.model({ format: "chat", script: "input=10&output=3&ttft=200", max_concurrency: 1 })
    const first = ask(gateway, key, "chat", model)
    await eventually(
      "the slot is taken",
      () => callsOf(gateway, model).length,
      (calls) => calls === 1,
    )
    const second = ask(gateway, key, "chat", model)
    await Bun.sleep(50)
    await still.once()
    expect([(await first).status, (await second).status]).toEqual([200, 200])
    await still.stop()
  })
})
