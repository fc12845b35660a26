/** A gateway that is stopped: no new calls, streams run to their end, and nobody can keep it from ending (decisions §11). */
import { describe, expect, test } from "bun:test"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { ask, callsOf, content, ending, eventually, failureIn, formats, Reading, requestId, rowsOf } from "./calling.ts"
import { expectFailure } from "./expect-failure.ts"
import { covers } from "./rows.ts"

const started = async (env: Record<string, string> = {}) => {
  const gateway = await startTestGateway({ env })
  const person = await gateway.person(1_000_000)
  const { key } = await gateway.key(person)
  return { gateway, person, key }
}

const streaming = async (gateway: TestGateway, key: string, format: (typeof formats)[number], script: string) => {
  const response = await ask(gateway, key, format, await gateway.model({ format, script }), { stream: true })
  const reading = new Reading(response)
  await reading.until(content[format])
  return { response, reading }
}

describe.concurrent(covers("11.drain"), () => {
  test("streams run to their end and are billed, new calls are refused, and the lease is given back", async () => {
    const { gateway, person, key } = await started()
    await using _ = gateway
    const running = await Promise.all(
      formats.map(async (format) => ({
        format,
        ...(await streaming(gateway, key, format, "output=20&pace=20&input=10")),
      })),
    )
    const stopped = gateway.stop()
    await eventually(
      "it has heard the signal",
      () => fetch(`${gateway.url}/readyz`).then(({ status }) => status),
      (status) => status === 503,
    )
    await expectFailure(await ask(gateway, key, "chat", "plain"), 429, "gateway.capacity")
    for (const { format, reading } of running) expect(await reading.rest()).toMatch(ending[format])
    await stopped
    for (const { response } of running)
      expect(await rowsOf(gateway, requestId(response))).toMatchObject([{ status: "ok", charge_micro: 110_000n }])
    const [balance] = await gateway.sql`
      select posted_micro, leased_micro from balances where account_id = ${person.accountId}`
    expect(balance).toEqual({ posted_micro: 1_000_000_000_000n - 330_000n, leased_micro: 0n })
    expect(await gateway.sql`select from openings`).toHaveLength(0)
  })

  test("a call that waits for a slot is told that there is none", async () => {
    const { gateway, key } = await started()
    await using _ = gateway
    const model = await gateway.model({ format: "chat", script: "ttft=3000", max_concurrency: 1 })
    const first = ask(gateway, key, "chat", model)
    await eventually(
      "the slot is taken",
      () => callsOf(gateway, model).length,
      (calls) => calls === 1,
    )
    const second = ask(gateway, key, "chat", model)
    await Bun.sleep(500)
    const stopped = gateway.stop()
    expect((await first).status).toBe(200)
    await expectFailure(await second, 429, "gateway.capacity")
    await stopped
    expect(callsOf(gateway, model)).toHaveLength(1)
  })

  test.each(formats)("on %s a stream that outlives the drain is told so and costs nothing", async (format) => {
    const { gateway, key } = await started({ DRAIN_MS: "100" })
    await using _ = gateway
    const { reading, response } = await streaming(gateway, key, format, "output=500&pace=20")
    const stopped = gateway.stop()
    expect(failureIn(format, await reading.rest())?.message).toStartWith("The gateway had to stop")
    await stopped
    expect(await rowsOf(gateway, requestId(response))).toMatchObject([{ status: "upstream_error", charge_micro: 0n }])
  })

  test("a client that stopped reading does not keep the gateway from ending", async () => {
    const { gateway, key } = await started({ DRAIN_MS: "100", CAPACITY_WAIT_MS: "100" })
    await using _ = gateway
    const model = await gateway.model({ format: "chat", script: "output=8192&delta=25000" })
    const response = await ask(gateway, key, "chat", model, { stream: true })
    const reading = new Reading(response)
    await reading.until(content.chat)
    await gateway.stop()
    expect(await rowsOf(gateway, requestId(response))).toMatchObject([{ status: "upstream_error", charge_micro: 0n }])
  })
})
