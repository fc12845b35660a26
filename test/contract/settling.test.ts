/** What every call comes to: its record's status, its charge, and when it is durable (decisions §3; "Usage record status"). */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { largestMicro } from "../../actors/money/micro.ts"
import { hasOwnDatabase } from "../gateway/binary.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { type FaultProxy, openFaultProxy } from "../store/fault-proxy.ts"
import { ask, callsOf, content, costIn, ending, eventually, formats, Reading, requestId, rowsOf } from "./calling.ts"
import { expectFailure } from "./expect-failure.ts"
import { covers } from "./rows.ts"

let gateway: TestGateway
let person: Person
let key: string

beforeAll(async () => {
  gateway = await startTestGateway()
  person = await gateway.person(10_000_000)
  key = (await gateway.key(person)).key
})
afterAll(() => gateway[Symbol.asyncDispose]())

describe.each(formats)("%s", (format) => {
  describe(covers("status.ok", "header.cost"), () => {
    test.each([true, false])("an answer is charged and takes one turn (stream: %p)", async (stream) => {
      const model = await gateway.model({ format, script: "input=10&output=4" })
      const response = await ask(gateway, key, format, model, { stream })
      await response.text()
      expect(response.headers.get("x-cost-rp")).toBe(stream ? null : "0.03")
      expect(await rowsOf(gateway, requestId(response))).toMatchObject([
        { status: "ok", charge_micro: 30_000n, turns: 1, attempts: 1, flagged: false },
      ])
    })
  })

  describe(covers("status.usage_missing", "2.hostile", "12.20"), () => {
    const hostile = ["none", "null", "negative", "fraction", "string"]
    test.each(hostile.flatMap((usage) => [true, false].map((stream) => [usage, stream] as const)))(
      "counts that are %s (stream: %p) are not believed: nothing is charged, and the record is flagged",
      async (usage, stream) => {
        const model = await gateway.model({ format, script: `input=10&output=4&usage=${usage}` })
        const before = await gateway.balance(person)
        const response = await ask(gateway, key, format, model, { stream })
        expect(response.status).toBe(200)
        await response.text()
        expect(response.headers.get("x-cost-rp")).toBe(stream ? null : "0")
        const rows = await rowsOf(gateway, requestId(response))
        expect(rows).toMatchObject([{ status: "usage_missing", charge_micro: 0n, flagged: true, turns: 1 }])
        expect(await gateway.balance(person)).toEqual(before)
        expect(await gateway.usage(person, requestId(response))).toMatchObject({
          status: "usage_missing",
          charge_micro: 0,
          input_tokens: 0,
          output_tokens: 0,
        })
      },
    )

    test.each([true, false])("zeros are no counts of an answer that says something (stream: %p)", async (stream) => {
      const model = await gateway.model({ format, script: "text=Yes.&input=0&counted=0" })
      const response = await ask(gateway, key, format, model, { stream })
      expect(await response.text()).toContain("Yes.")
      expect(await rowsOf(gateway, requestId(response))).toMatchObject([
        { status: "usage_missing", charge_micro: 0n, flagged: true },
      ])
    })

    test.each([true, false])("an answer that says nothing may count zeros (stream: %p)", async (stream) => {
      const model = await gateway.model({ format, script: "output=0&input=0" })
      const response = await ask(gateway, key, format, model, { stream })
      await response.text()
      expect(await rowsOf(gateway, requestId(response))).toMatchObject([
        { status: "ok", charge_micro: 0n, flagged: false },
      ])
    })
  })

  // A limit of 40 tokens and a window of 1,000; rates of 1,000 for input, 1,250 and 100 for the cache, 5,000 for output.
  const counts: [string, string, { charge: number; excess: number; tokens: Record<string, number> }][] = [
    ["all that was asked for", "input=10&counted=40", { charge: 210_000, excess: 0, tokens: { output_tokens: 40 } }],
    ["one more", "input=10&counted=41", { charge: 210_000, excess: 5_000, tokens: { output_tokens: 40 } }],
    [
      "thinking beside the limit",
      "input=10&counted=640",
      { charge: 210_000, excess: 3e6, tokens: { output_tokens: 40 } },
    ],
    ["a full window", "input=1000&counted=1", { charge: 1_005_000, excess: 0, tokens: { input_tokens: 1_000 } }],
    [
      "more than a window",
      "input=1001&counted=1",
      { charge: 1_005_000, excess: 1_000, tokens: { input_tokens: 1_000 } },
    ],
    [
      "more than a window, with its cache",
      "input=300&cached=600&written=200&counted=1",
      {
        charge: 490_000,
        excess: 125_000,
        tokens: { cache_read_tokens: 600, input_tokens: 300, cache_write_tokens: 100 },
      },
    ],
  ]
  // What the house bears of such a count is told as the most that an amount may be.
  counts.push([
    "more than there are numbers for",
    "usage=huge&input=10&output=4",
    {
      charge: 1_200_000,
      excess: Number(largestMicro / 8n),
      tokens: { input_tokens: 1_000, output_tokens: 40 },
    },
  ])
  const field = format === "responses" ? "max_output_tokens" : "max_tokens"
  describe(covers("13.2"), () => {
    test.each(counts.flatMap((row) => [true, false].map((stream) => [...row, stream] as const)))(
      "%s: charged up to the bound, the rest is absorbed (%s)",
      async (_, script, { charge, excess, tokens }, stream) => {
        const model = await gateway.model({ format, script, context_window: 1_000 })
        const response = await ask(gateway, key, format, model, { stream, [field]: 40 })
        await response.text()
        expect(response.headers.get("x-cost-rp")).toBe(stream ? null : String(charge / 1e6))
        expect(await rowsOf(gateway, requestId(response))).toMatchObject([
          { status: "ok", charge_micro: BigInt(charge), flagged: excess > 0 },
        ])
        const [row] = await gateway.sql`
          select absorbed_micro, excess_micro from usage where request_id = ${requestId(response)} and part = 0`
        expect(row).toEqual({ absorbed_micro: BigInt(excess), excess_micro: BigInt(excess) })
        // The customer's receipt adds up: tokens at their rates, of which nothing was left unpaid.
        expect(await gateway.usage(person, requestId(response))).toMatchObject({ charge_micro: charge, ...tokens })
      },
    )

    test("the model's own limit bounds an answer without a limit of the client's", async () => {
      if (format === "messages") return
      const model = await gateway.model({ format, script: "input=10&counted=101", max_output_tokens: 100 })
      const response = await ask(gateway, key, format, model)
      await response.text()
      expect(await rowsOf(gateway, requestId(response))).toMatchObject([{ charge_micro: 510_000n, flagged: true }])
    })

    test("a limit that was lowered to what the hold covers is the bound", async () => {
      const poor = await gateway.person(10_000)
      const { key } = await gateway.key(poor)
      // Half of the balance is Rp 5,000, which pays for at most 5,000 tokens of Rp 1.
      const model = await gateway.model({ format, script: "counted=8000", output_micro: 1_000_000 })
      const response = await ask(gateway, key, format, model, { [field]: 8_000 })
      await response.text()
      const limit = Number(gateway.simulator.calls.findLast((call) => call.model.startsWith(model))?.body?.[field])
      expect(limit).toBeGreaterThan(4_900)
      expect(limit).toBeLessThanOrEqual(5_000)
      expect(await gateway.usage(poor, requestId(response))).toMatchObject({ status: "ok", output_tokens: limit })
    })
  })

  test.each([true, false])(`${covers("13.2")} the limit is each answer's own (stream: %p)`, async (stream) => {
    if (format !== "chat") return
    // 131,072 + 8,192 tokens were once all that was believed, whatever `n`.
    for (const [counted, charge] of [
      [160_000, 800_010_000n],
      [163_840, 819_210_000n],
      [163_841, 819_210_000n],
    ] as const) {
      const script = `text=Hi&input=10&counted=${counted}`
      const model = await gateway.model({ format, script, context_window: 131_072 })
      const response = await ask(gateway, key, format, model, { stream, n: 20, max_tokens: 8_192 })
      await response.text()
      const [row] = await rowsOf(gateway, requestId(response))
      expect(row).toMatchObject({ status: "ok", charge_micro: charge, flagged: counted > 163_840 })
    }
  })

  test(`${covers("3.never-more")} an answer that costs more than is held and left is charged what there is`, async () => {
    const poor = await gateway.person(10_000)
    const { key } = await gateway.key(poor)
    const model = await gateway.model({ format, script: "input=150000&output=4", input_micro: 100_000_000 })
    const response = await ask(gateway, key, format, model)
    expect(response.status).toBe(200)
    await response.text()
    expect(response.headers.get("x-cost-rp")).toBe("10000")
    expect(await gateway.balance(poor)).toMatchObject({ balance_micro: 0, held_micro: 0 })
    const [row] = await gateway.sql`select absorbed_micro from usage where request_id = ${requestId(response)}`
    expect(row).toEqual({ absorbed_micro: 150_000n * 100_000_000n + 20_000n - 10_000_000_000n })
  })

  test(`${covers("12.5", "3.once")} each call that was forwarded has one final record, whatever became of it`, async () => {
    const scripts = ["", "fault=status&status=400", "fault=cut&after=1", "usage=none", "fault=context", "fault=empty"]
    for (const script of scripts) {
      const model = await gateway.model({ format, script })
      const response = await ask(gateway, key, format, model, { stream: true })
      await response.text()
      expect(await rowsOf(gateway, requestId(response))).toHaveLength(1)
    }
    expect((await gateway.balance(person)).held_micro).toBe(0)
  })
})

describe.skipIf(hasOwnDatabase)(covers("3.durable", "3.deadline", "status.billing_error", "6.terminal"), () => {
  const SETTLE_DEADLINE_MS = 700
  let proxy: FaultProxy
  let slow: TestGateway
  let payer: Person
  let paying: string

  beforeAll(async () => {
    slow = await startTestGateway({
      env: { SETTLE_DEADLINE_MS: String(SETTLE_DEADLINE_MS), HEARTBEAT_MS: "100" },
      databaseUrl: async (url) => (proxy = await openFaultProxy(url)).url,
    })
    payer = await slow.person(1_000_000)
    paying = (await slow.key(payer)).key
    // Key and account are in memory from here on.
    const response = await ask(slow, paying, "chat", "plain")
    await response.text()
  })
  afterAll(async () => {
    await slow[Symbol.asyncDispose]()
    await proxy.close()
  })

  /** The database is gone from now on until `back`. */
  const gone = () => {
    proxy.refuse()
    proxy.cut()
  }
  const back = async () => {
    proxy.accept()
    await eventually(
      "the database is back",
      () => fetch(`${slow.url}/readyz`).then(({ status }) => status),
      (status) => status === 200,
    )
  }

  test.each(formats)(
    "on %s the terminal event waits for a database that is away, and heartbeats go on",
    async (format) => {
      const model = await slow.model({ format, script: "output=4&pace=300&input=10" })
      const reading = new Reading(await ask(slow, paying, format, model, { stream: true }))
      await reading.until(/\n\n/)
      gone()
      await eventually(
        "the backend has ended",
        () => callsOf(slow, model)[0]?.outcome,
        (end) => end === "finished",
      )
      // After the last word of four.
      const soFar = await reading.until(new RegExp(`(?:${content[format].source}[^]*?){4}: heartbeat\\n`, "m"))
      expect(soFar).not.toMatch(ending[format])
      await back()
      const text = await reading.rest()
      expect(text).toMatch(ending[format])
      const look = () =>
        slow.sql`select status, charge_micro from usage where model = ${model}`.then((rows) => [...rows])
      const [row] = await eventually("the record is written", look, (rows) => rows.length === 1)
      // Under load the deadline may pass first; then the same call is on the house, and its record says so.
      expect([
        { status: "ok", charge_micro: 30_000n },
        { status: "billing_error", charge_micro: 0n },
      ]).toContainEqual(row as { status: string; charge_micro: bigint })
      expect(costIn(text).charge).toBe(Number(row?.["charge_micro"]))
    },
  )

  test.each(["responses"] as const)(
    "on %s a stream whose settlement is late ends well, and is charged nothing",
    async (format) => {
      const before = await slow.balance(payer)
      const model = await slow.model({ format, script: "output=4&pace=300&input=10" })
      const reading = new Reading(await ask(slow, paying, format, model, { stream: true }))
      await reading.until(/\n\n/)
      gone()
      const text = await reading.rest()
      expect(text).toMatch(ending[format])
      expect(costIn(text).charge).toBe(0)
      await back()
      const look = () =>
        slow.sql`select status, charge_micro, flagged from usage where model = ${model}`.then((rows) => [...rows])
      const rows = await eventually("the record is written", look, (found) => found[0]?.["status"] === "billing_error")
      expect(rows).toMatchObject([{ status: "billing_error", charge_micro: 0n, flagged: true }])
      await eventually(
        "nothing is held",
        () => slow.balance(payer),
        (now) => now.held_micro === 0,
      )
      expect(await slow.balance(payer)).toEqual(before)
    },
  )

  test.each(["messages", "responses"] as const)(
    "on %s an answer whose settlement is late is a failure: nothing is deducted, and it may be asked for again",
    async (format) => {
      const before = await slow.balance(payer)
      const model = await slow.model({ format, script: "ttft=1000&input=10" })
      const named = { headers: { "Idempotency-Key": `late-${format}` } }
      const asked = ask(slow, paying, format, model, {}, named)
      await eventually(
        "it is opened",
        () => slow.sql`select 1 from openings where model = ${model}`,
        (rows) => rows.length === 1,
      )
      gone()
      const response = await asked
      // Its head has gone with a heartbeat.
      if (format === "responses") expect(await response.json()).toMatchObject({ status: "failed" })
      else await expectFailure(response, 503, "billing.reconcile_failed")
      await back()
      const look = () =>
        slow.sql`select status, charge_micro, error_code from usage where model = ${model}`.then((rows) => [...rows])
      const rows = await eventually("the record is written", look, (found) => found[0]?.["status"] === "billing_error")
      expect(rows).toMatchObject([{ charge_micro: 0n, error_code: "billing.reconcile_failed" }])
      expect(await slow.balance(payer)).toEqual(before)
      const again = await eventually(
        "it is made again",
        () => ask(slow, paying, format, model, {}, named),
        ({ status }) => status === 200,
      )
      expect(again.headers.has("idempotency-replayed")).toBeFalse()
      expect(callsOf(slow, model)).toHaveLength(2)
    },
  )
})
