/** No dearer answer without a yes: which models of a chain may answer, and how a reroute is told (decisions §13.6). */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { systemClock } from "../../actors/kernel/clock.ts"
import { type ModelWish, type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { ask, callsOf, eventually, formats, requestId, rowsOf } from "./calling.ts"
import { expectFailure } from "./expect-failure.ts"
import { covers } from "./rows.ts"

let gateway: TestGateway
let person: Person
let keys: Readonly<Record<"unsaid" | "any" | "never_dearer" | "off", string>>

beforeAll(async () => {
  gateway = await startTestGateway({ env: { HEARTBEAT_MS: "2000" } })
  person = await gateway.person(1_000_000)
  const key = async (limits: object) => (await gateway.key(person, { ...limits })).key
  keys = {
    unsaid: await key({}),
    any: await key({ fallback: "any" }),
    never_dearer: await key({ fallback: "never_dearer" }),
    off: await key({ fallback: "off" }),
  }
})
afterAll(() => gateway[Symbol.asyncDispose]())

const dearer = { output_micro: 5_001 }
const cheaper = { output_micro: 4_999 }
const THROTTLED = "fault=status&status=429&retry_after=7"
type Format = (typeof formats)[number]

/** A model whose backend throttles, or whose window is too small, with a chain of models that would do. */
async function chained(
  format: Format,
  chain: readonly Partial<ModelWish>[],
  how: "throttled" | "too small" | "refused",
) {
  const fallback: string[] = []
  for (const wish of chain) fallback.push(await gateway.model({ format, ...wish }))
  const own = {
    throttled: { script: THROTTLED },
    "too small": { context_window: 1 },
    refused: { script: "fault=context" },
  }[how]
  return { model: await gateway.model({ format, ...own, fallback }), chain: fallback }
}
const withHeader = (value: string) => ({ headers: { "X-Fallback": value } })

describe.concurrent.each(formats)(`${covers("13.6")} on %s`, (format) => {
  test.each(["unsaid", "never_dearer", "off"] as const)(
    "a dearer model does not answer for a throttled one: the 429 is told with the backend's wait (key: %s)",
    async (key) => {
      const { model, chain } = await chained(format, [dearer], "throttled")
      const response = await ask(gateway, keys[key], format, model)
      const { retryAfterS } = await expectFailure(response, 429, "upstream.rate_limited")
      expect(retryAfterS).toBe(7)
      expect(callsOf(gateway, chain[0]!)).toEqual([])
      expect(await rowsOf(gateway, requestId(response))).toMatchObject([
        { model, status: "upstream_error", error_code: "upstream.rate_limited", charge_micro: 0n },
      ])
    },
  )

  test.each(["unsaid", "off"] as const)(
    "a prompt that only a dearer model has room for is refused with the asked model's numbers (key: %s)",
    async (key) => {
      const { model, chain } = await chained(format, [dearer], "too small")
      const response = await ask(gateway, keys[key], format, model)
      const { message } = await expectFailure(response, 400, "upstream.context_length_exceeded")
      expect(message).toMatch(/prompt is too long: \d+ tokens > 1 maximum/)
      expect([callsOf(gateway, model), callsOf(gateway, chain[0]!)]).toEqual([[], []])
      const told = await chained(format, [dearer], "refused")
      const late = await ask(gateway, keys[key], format, told.model)
      await expectFailure(late, 400, "upstream.context_length_exceeded")
      expect(callsOf(gateway, told.chain[0]!)).toEqual([])
    },
  )

  test.each(["throttled", "too small", "refused"] as const)(
    "the next model that is not dearer answers, and the head says so (%s)",
    async (how) => {
      const { model, chain } = await chained(format, [dearer, cheaper], how)
      for (const stream of [true, false]) {
        const response = await ask(gateway, keys.unsaid, format, model, { stream })
        expect(response.status).toBe(200)
        expect(await response.text()).toContain(`"model":"${chain[1]}"`)
        expect(response.headers.get("x-model")).toBe(chain[1]!)
        expect(response.headers.get("x-rerouted-from")).toBe(model)
      }
      expect(callsOf(gateway, chain[0]!)).toEqual([])
    },
  )

  test("a key that takes any is answered by a dearer one, at its rates", async () => {
    const { model, chain } = await chained(format, [{ ...dearer, script: "input=10&output=4" }], "throttled")
    const response = await ask(gateway, keys.any, format, model)
    expect(response.status).toBe(200)
    expect(response.headers.get("x-rerouted-from")).toBe(model)
    expect(await rowsOf(gateway, requestId(response))).toMatchObject([
      { model: chain[0], status: "ok", charge_micro: BigInt(10 * 1_000 + 4 * 5_001) },
      { model, status: "fallback_429" },
    ])
  })

  test("a key that is off follows no chain, not even to one that costs nothing", async () => {
    const { model, chain } = await chained(format, [{ input_micro: 0, output_micro: 0 }], "throttled")
    await expectFailure(await ask(gateway, keys.off, format, model), 429, "upstream.rate_limited")
    expect(callsOf(gateway, chain[0]!)).toEqual([])
  })

  test.each([
    ["any", "off", undefined],
    ["any", "never_dearer", 1],
    ["unsaid", "any", 0],
    ["unsaid", "never_dearer", 1],
    ["unsaid", "off", undefined],
    ["off", "any", undefined],
    ["off", "never_dearer", undefined],
    ["off", "off", undefined],
    ["unsaid", "", 1],
  ] as const)("a key that says %s, and a call that says '%s'", async (key, header, answers) => {
    const { model, chain } = await chained(format, [dearer, cheaper], "throttled")
    const response = await ask(gateway, keys[key], format, model, {}, withHeader(header))
    if (answers === undefined) await expectFailure(response, 429, "upstream.rate_limited")
    else expect(response.headers.get("x-model")).toBe(chain[answers]!)
  })

  test.each(["all", "Any", "never-dearer", "any, off", "true"])("'%s' is no such wish", async (value) => {
    const model = await gateway.model({ format })
    const response = await ask(gateway, keys.any, format, model, {}, withHeader(value))
    const { message } = await expectFailure(response, 400, "request.invalid")
    expect(message).toContain("X-Fallback")
    expect(callsOf(gateway, model)).toEqual([])
  })

  test("an answer of the model that was asked for, and one of a retired id's target, say nothing of a reroute", async () => {
    const target = await gateway.model({ format, ...dearer })
    const retired = await gateway.model({ format })
    const until = new Date(Date.now() + 60_000)
    await gateway.sql`insert into model_aliases (alias, target, until) values (${retired}, ${target}, ${until})`
    await gateway.refreshCatalogue()
    for (const model of [target, retired]) {
      for (const stream of [true, false]) {
        const response = await ask(gateway, keys.off, format, model, { stream })
        expect(await response.text()).toContain(`"model":"${target}"`)
        expect([response.headers.get("x-model"), response.headers.get("x-rerouted-from")]).toEqual([null, null])
      }
    }
  })

  test("a model of the chain that is too expensive for the account is passed over: the asked model's 429 is told", async () => {
    const { key } = await gateway.key(await gateway.person(10_000), { fallback: "any" })
    const expensive = { input_micro: 1_000_000_000, output_micro: 1_000_000_000 }
    const { model, chain } = await chained(format, [expensive], "throttled")
    const response = await ask(gateway, key, format, model)
    const { retryAfterS } = await expectFailure(response, 429, "upstream.rate_limited")
    expect(retryAfterS).toBe(7)
    expect(callsOf(gateway, chain[0]!)).toEqual([])
    expect(await rowsOf(gateway, requestId(response))).toMatchObject([
      { model, status: "upstream_error", error_code: "upstream.rate_limited", charge_micro: 0n },
    ])
  })

  test("for a client that has left meanwhile no other model is asked, and the record says why the asked one failed", async () => {
    const other = await gateway.model({ format })
    const model = await gateway.model({ format, script: `head=200&${THROTTLED}`, fallback: [other] })
    const leaving = new AbortController()
    const asked = ask(gateway, keys.any, format, model, { stream: true }, { signal: leaving.signal })
    await eventually(
      "the backend is asked",
      () => callsOf(gateway, model).length,
      (calls) => calls === 1,
    )
    leaving.abort()
    expect(await asked.catch(() => "left")).toBe("left")
    const rows = await eventually(
      "the record",
      () => gateway.sql`select status, error_code from usage where model in (${model}, ${other})`,
      ({ length }) => length > 0,
    )
    expect([...rows]).toEqual([{ status: "upstream_error", error_code: "upstream.rate_limited" }])
    expect(callsOf(gateway, other)).toEqual([])
  })

  test("a head that went with a heartbeat says nothing of the reroute; the answer does", async () => {
    const { model, chain } = await chained(format, [{ script: "ttft=2600" }], "throttled")
    const response = await ask(gateway, keys.unsaid, format, model, { stream: true })
    const text = await response.text()
    expect(text).toContain(": heartbeat")
    expect(text).toContain(`"model":"${chain[0]}"`)
    expect(response.headers.get("x-model")).toBeNull()
  })

  test("a rate that rises past the asked model's closes the way, and the key opens it within a second", async () => {
    const { model, chain } = await chained(format, [{}], "throttled")
    const made = await gateway.key(person)
    const status = async () => {
      const response = await ask(gateway, made.key, format, model)
      await response.text()
      return response.status
    }
    expect(await status()).toBe(200)
    await gateway.model({ format, model: chain[0]!, cache_read_micro: 101 })
    expect(await status()).toBe(429)
    const change = (fallback: string) =>
      gateway.dashboard(person, `/keys/${made.id}`, { method: "PATCH", body: JSON.stringify({ fallback }) })
    expect(await (await change("any")).json()).toMatchObject({ fallback: "any" })
    const until = systemClock.running() + 1_000
    let last = await status()
    while (last !== 200 && systemClock.running() < until) last = await status()
    expect(last).toBe(200)
  })
})

test("the catalogue tells each model's chain, in order", async () => {
  const { model, chain } = await chained("chat", [dearer, cheaper, {}], "throttled")
  const response = await fetch(`${gateway.url}/models`)
  const { data } = (await response.json()) as { data: readonly { model: string; fallback: readonly string[] }[] }
  expect(data.find((item) => item.model === model)?.fallback).toEqual(chain)
  expect(data.find((item) => item.model === chain[0])?.fallback).toEqual([])
})
