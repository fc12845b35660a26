/** Slots of a model and of the gateway: waits, fairness, and that none is ever lost (decisions §5, §12.15; "Limits"). */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { systemClock } from "../../actors/kernel/clock.ts"
import type { Translated } from "../../src/language/request.ts"
import { runIdOf } from "../../src/gateway/runs.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { ask, callsOf, eventually, failureIn, formats, Reading, requestId, rowsOf } from "./calling.ts"
import { expectFailure } from "./expect-failure.ts"
import { covers } from "./rows.ts"

let gateway: TestGateway
/** In which a call waits for a slot for longer than any test takes. */
let patient: TestGateway
let person: Person
let key: string

beforeAll(async () => {
  patient = await startTestGateway({ env: { CAPACITY_WAIT_MS: "60000", DRAIN_MS: "100" } })
  gateway = await startTestGateway({
    env: {
      CAPACITY_WAIT_MS: "400",
      HEARTBEAT_MS: "50",
      DRAIN_LEFT_MS: "200",
    },
  })
  person = await gateway.person(10_000_000)
  key = (await gateway.key(person)).key
})
afterAll(async () => {
  over.abort()
  await gateway[Symbol.asyncDispose]()
  await patient[Symbol.asyncDispose]()
})

/** Of a backend that says nothing for longer than any test takes. */
const SILENT = "ttft=60000"
/** With it those who occupy a slot leave. */
const over = new AbortController()

type WaitingKey = Awaited<ReturnType<TestGateway["key"]>>

/** A call that keeps its slot. */
async function occupy(model: string, format: Translated = "chat"): Promise<void> {
  const response = ask(gateway, key, format, model, { stream: true }, { signal: over.signal })
  response.then((answer) => answer.text()).catch(() => {})
  await eventually(
    "the slot is taken",
    () => callsOf(gateway, model).at(-1)?.outcome,
    (end) => end === "running",
  )
}

describe(covers("5.capacity", "error.gateway.capacity"), () => {
  test.concurrent.each(formats)(
    "on %s a call waits so long for a slot, and is then told to come again",
    async (format) => {
      const model = await gateway.model({ format, script: SILENT, max_concurrency: 1 })
      await occupy(model, format)
      const before = performance.now()
      const response = await ask(gateway, key, format, model, { stream: true })
      expect(performance.now() - before).toBeGreaterThanOrEqual(390)
      expect((await expectFailure(response, 429, "gateway.capacity")).retryAfterS).toBe(1)
      expect(callsOf(gateway, model)).toHaveLength(1)
      expect(await rowsOf(gateway, requestId(response))).toEqual([])
    },
  )

  test("a call that gets its slot in time is served", async () => {
    const { key: payer } = await patient.key(await patient.person(10_000))
    const model = await patient.model({ format: "chat", script: "ttft=150", max_concurrency: 1 })
    const responses = await Promise.all([1, 2].map(() => ask(patient, payer, "chat", model)))
    expect(responses.map(({ status }) => status)).toEqual([200, 200])
    const [first, second] = callsOf(patient, model)
    expect(second?.startedAt).toBeGreaterThanOrEqual((first?.startedAt ?? 0) + 150)
  })

  test("the queue is four times the cap; who comes then is refused at once", async () => {
    const model = await patient.model({ format: "chat", script: SILENT, max_concurrency: 1 })
    const { key } = await patient.key(await patient.person(1_000_000))
    const leaving = new AbortController()
    const refused: Response[] = []
    let left = 0
    for (let n = 0; n < 8; n++)
      ask(patient, key, "chat", model, {}, { signal: leaving.signal }).then(
        (response) => refused.push(response),
        () => left++,
      )
    await eventually(
      "those beyond the queue are refused",
      () => refused.length,
      (count) => count >= 3,
    )
    for (const response of refused) await expectFailure(response, 429, "gateway.capacity")
    leaving.abort()
    await eventually(
      "the others wait until they leave",
      () => left,
      (count) => count === 5,
    )
    expect(refused).toHaveLength(3)
  })

  test("who leaves the queue makes room in it at once", async () => {
    const model = await patient.model({ format: "chat", script: SILENT, max_concurrency: 1 })
    const { key } = await patient.key(await patient.person(1_000_000))
    const send = () => {
      const leaving = new AbortController()
      const call = { leaving, isRefused: false }
      ask(patient, key, "chat", model, {}, { signal: leaving.signal }).then(
        ({ status }) => (call.isRefused = status === 429),
        () => {},
      )
      return call
    }
    const calls = [send()]
    await eventually(
      "the slot is taken",
      () => callsOf(patient, model).length,
      (count) => count === 1,
    )
    const waiting = Array.from({ length: 5 }, send)
    calls.push(...waiting)
    await eventually(
      "the queue is full",
      () => waiting.some(({ isRefused }) => isRefused),
      (isFull) => isFull,
    )
    waiting.find(({ isRefused }) => !isRefused)?.leaving.abort()
    await eventually(
      "another one waits",
      async () => {
        // An account that is refused much more often than this is told so later.
        await Bun.sleep(150)
        const next = send()
        calls.push(next)
        // Nothing outside shows a call that waits; a refusal comes sooner than this.
        for (let n = 0; n < 40 && !next.isRefused; n++) await Bun.sleep(10)
        return next.isRefused
      },
      (isRefused) => !isRefused,
    )
    expect(callsOf(patient, model)).toHaveLength(1)
    for (const { leaving } of calls) leaving.abort()
  })

  test.each([
    ["key", 401, "auth.api_key_revoked", ({ id }: WaitingKey) => `/keys/${id}/revoke`],
    ["run", 402, "quota.run_limit_exceeded", ({ id }: WaitingKey) => `/runs/${runIdOf(id, "r")}/end`],
  ] as const)("a %s that ends while its call waits for a slot ends the call", async (what, status, code, pathOf) => {
    const model = `${what}-ends`
    // Its backend takes two calls at once, the model one, and later two.
    const upstream = { provider: "simulated", format: "chat", model: `${model}?${SILENT}`, max_concurrency: 2 } as const
    const wish = { format: "chat", model, upstreams: [upstream] } as const
    await patient.model({ ...wish, max_concurrency: 1 })
    const first = await patient.key(await patient.person(10_000))
    ask(patient, first.key, "chat", model, {}, { signal: over.signal }).catch(() => {})
    await eventually(
      "the slot is taken",
      () => callsOf(patient, model).length,
      (calls) => calls === 1,
    )
    const payer = await patient.person(10_000)
    const made = await patient.key(payer)
    const headers = { "X-Run-Id": "r", "X-Run-Budget-Rp": "1000" }
    const waiting = ask(patient, made.key, "chat", model, {}, { headers })
    // Nothing outside shows a call that waits; this is long enough to be there.
    await Bun.sleep(150)
    // The run is made by the call.
    await eventually(
      "it ends",
      async () => (await patient.dashboard(payer, pathOf(made), { method: "POST", body: "{}" })).status,
      (answered) => answered === 200,
    )
    await patient.model({ ...wish, max_concurrency: 2 })
    await expectFailure(await waiting, status, code)
    expect(callsOf(patient, model)).toHaveLength(1)
    expect((await patient.balance(payer)).held_micro).toBe(0)
    ask(patient, first.key, "chat", model, {}, { signal: over.signal }).catch(() => {})
    await eventually(
      "another call has its place",
      () => callsOf(patient, model).length,
      (calls) => calls === 2,
    )
  })

  test("a client that has left an answer keeps its slot until its backend is done", async () => {
    const model = await patient.model({ format: "chat", script: "ttft=700", max_concurrency: 1 })
    const { key } = await patient.key(await patient.person(10_000))
    const leaving = new AbortController()
    const left = ask(patient, key, "chat", model, {}, { signal: leaving.signal }).catch(() => "left")
    await eventually(
      "the backend is asked",
      () => callsOf(patient, model).length,
      (calls) => calls === 1,
    )
    leaving.abort()
    expect(await left).toBe("left")
    expect((await ask(patient, key, "chat", model)).status).toBe(200)
    const [first, second] = callsOf(patient, model)
    expect(second?.startedAt).toBeGreaterThanOrEqual((first?.startedAt ?? 0) + 700)
  })

  test("an account that comes again at once, time after time, is told after a second that there is no room", async () => {
    const model = await patient.model({ format: "chat", script: "ttft=60000", max_concurrency: 1 })
    const { key } = await patient.key(await patient.person(1_000_000))
    const leaving = new AbortController()
    const { signal } = leaving
    // The slot, and the queue behind it, are its own: another account would be let in before it.
    for (let n = 0; n < 5; n++) ask(patient, key, "chat", model, {}, { signal }).catch(() => {})
    await eventually(
      "the slot is taken",
      () => callsOf(patient, model).length,
      (calls) => calls === 1,
    )
    await Bun.sleep(1_000)
    const refused = async (clock: () => number) => {
      const before = clock()
      await expectFailure(await ask(patient, key, "chat", model), 429, "gateway.capacity")
      return clock() - before
    }
    const first: number[] = []
    for (let n = 0; n < 100; n++) first.push(await refused(() => systemClock.running()))
    expect(first.filter((ms) => ms > 900)).toEqual([])
    // And with so many that the first are forgotten before the last ones come.
    const many = () => Promise.all(Array.from({ length: 30 }, () => refused(() => performance.now())))
    while (Math.min(...(await many())) <= 900);
    leaving.abort()
  })

  test("one key with many calls does not starve another", async () => {
    const payer = await patient.person(1_000_000)
    const [many, few] = await Promise.all([patient.key(payer), patient.key(payer)])
    const model = await patient.model({ format: "chat", script: "ttft=300", max_concurrency: 20 })
    // Both are known before it begins: what is tried is their turn, and not how long a key takes to read.
    for (const { key } of [many, few]) await (await ask(patient, key, "chat", "plain")).text()
    const order: string[] = []
    const call = async (by: string, name: string) => {
      const response = await ask(patient, by, "chat", model)
      await response.text()
      order.push(`${name} ${response.status}`)
    }
    // 20 slots and a queue of 80; the calls of the second key come when that of the first is long.
    const first = Array.from({ length: 88 }, () => call(many.key, "many"))
    await eventually(
      "the slots are taken",
      () => callsOf(patient, model).length,
      (calls) => calls >= 20,
    )
    await Promise.all([...first, ...Array.from({ length: 10 }, () => call(few.key, "few"))])
    expect(order.filter((entry) => entry === "many 200")).toHaveLength(88)
    expect(order.filter((entry) => entry === "few 200")).toHaveLength(10)
    // Served in turn, they are done long before those who came before them.
    expect(order.lastIndexOf("few 200")).toBeLessThan(80)
  })
})

describe(covers("13.17"), () => {
  test("an account that fills a model with many keys is not felt by another: its calls pass at once", async () => {
    const [crowd, tenant] = await Promise.all([patient.person(1_000_000), patient.person(1_000_000)])
    const keys = await Promise.all(Array.from({ length: 50 }, () => patient.key(crowd)))
    const own = (await patient.key(tenant)).key
    const cap = 16
    const model = await patient.model({ format: "chat", script: "ttft=1000", max_concurrency: cap })
    const quick = async () => {
      const before = systemClock.running()
      const response = await ask(patient, own, "chat", model)
      await response.text()
      return { status: response.status, ms: systemClock.running() - before }
    }
    const alone = await quick()
    expect(alone.status).toBe(200)
    const over = new AbortController()
    const flood = keys.flatMap(({ key }) =>
      [0, 1].map(async () => {
        const statuses: number[] = []
        while (!over.signal.aborted) {
          const response = await ask(patient, key, "chat", model)
          await response.text()
          statuses.push(response.status)
          if (response.status === 429) await Bun.sleep(50)
        }
        return statuses
      }),
    )
    await eventually(
      "the slots are taken",
      () => callsOf(patient, model).filter(({ outcome }) => outcome === "running").length,
      (running) => running >= (cap * 3) / 4,
    )
    const calls: { status: number; ms: number }[] = []
    for (let call = 0; call < 6; call++) calls.push(...(await Promise.all([quick(), quick()])))
    over.abort()
    const served = (await Promise.all(flood)).flat().filter((status) => status === 200)
    expect(calls.map(({ status }) => status)).toEqual(calls.map(() => 200))
    // A call that waited for one of the crowd's to end would take up to twice as long.
    expect(calls.map(({ ms }) => ms).toSorted((a, b) => a - b)[6]).toBeLessThan(alone.ms + 500)
    expect(served.length).toBeGreaterThan(cap)
    expect(overlap(callsOf(patient, model))).toBeLessThanOrEqual(cap)
  })
})

describe(covers("5.gate"), () => {
  test("the whole gateway has a gate of its own", async () => {
    await using small = await startTestGateway({ env: { MAX_CONCURRENCY: "2", CAPACITY_WAIT_MS: "50" } })
    const payer = await small.person(1_000_000)
    const { key } = await small.key(payer)
    const models = await Promise.all([1, 2, 3].map(() => small.model({ format: "chat", script: "ttft=2000" })))
    const responses = await Promise.all(models.map((model) => ask(small, key, "chat", model)))
    expect(responses.filter(({ status }) => status === 200)).toHaveLength(2)
    for (const refused of responses.filter(({ status }) => status !== 200)) {
      await expectFailure(refused, 429, "gateway.capacity")
    }
    expect((await small.balance(payer)).held_micro).toBe(0)
  })
})

describe(covers("12.6", "12.5"), () => {
  test("a client that leaves while it waits for a slot leaves no trace", async () => {
    const model = await patient.model({ format: "chat", script: SILENT, max_concurrency: 1 })
    const first = await patient.key(await patient.person(10_000))
    const { signal } = over
    ask(patient, first.key, "chat", model, {}, { signal }).catch(() => {})
    await eventually(
      "the slot is taken",
      () => callsOf(patient, model).length,
      (calls) => calls === 1,
    )
    const payer = await patient.person(10_000)
    const { key } = await patient.key(payer)
    const leaving = new AbortController()
    const waiting = ask(patient, key, "chat", model, {}, { signal: leaving.signal }).catch(() => "left")
    // Nothing outside shows a call that waits; this is long enough to be there.
    await Bun.sleep(150)
    leaving.abort()
    expect(await waiting).toBe("left")
    // All that there is can be spent again.
    const [whole] = await patient.sql`select posted_micro from balances where account_id = ${payer.accountId}`
    expect(whole).toEqual({ posted_micro: 10_000_000_000n })
    expect(await patient.sql`select from openings where account_id = ${payer.accountId}`).toHaveLength(0)
    expect(await patient.sql`select from usage where account_id = ${payer.accountId}`).toHaveLength(0)
    expect(callsOf(patient, model)).toHaveLength(1)
  })
})

describe(covers("12.15", "events.capacity"), () => {
  test.concurrent("a wait that runs out before anything was forwarded has its status, however long it took", async () => {
    const model = await gateway.model({ format: "chat", script: SILENT, max_concurrency: 1 })
    await occupy(model)
    // Eight heartbeats would have been due in this time.
    await expectFailure(await ask(gateway, key, "chat", model, { stream: true }), 429, "gateway.capacity")
  })

  test.concurrent.each(formats)("on %s no room after a reroute is upstream_capacity in the stream", async (format) => {
    const spare = await gateway.model({ format, script: SILENT, max_concurrency: 1 })
    await occupy(spare, format)
    const model = await gateway.model({ format, script: "fault=status&status=429", fallback: [spare] })
    const response = await ask(gateway, key, format, model, { stream: true })
    expect(response.status).toBe(200)
    const failure = failureIn(format, await response.text())
    expect(failure?.message).toStartWith("The server is at capacity")
    expect(failure?.type).toBe(format === "messages" ? "overloaded_error" : "server_error")
    if (format !== "messages") expect(failure?.code).toBe("upstream_capacity")
    expect(await rowsOf(gateway, requestId(response))).toMatchObject([
      { model, status: "upstream_error", error_code: "gateway.capacity", charge_micro: 0n },
    ])
  })

  test.concurrent.each(formats)(
    "on %s a model of the chain without room is passed over for the next",
    async (format) => {
      const [full, free] = [
        await gateway.model({ format, script: SILENT, max_concurrency: 1 }),
        await gateway.model({ format }),
      ]
      await occupy(full, format)
      const model = await gateway.model({ format, script: "fault=status&status=429", fallback: [full, free] })
      const response = await ask(gateway, key, format, model, { stream: true })
      expect(response.status).toBe(200)
      expect(await response.text()).toContain(`"model":"${free}"`)
      expect(callsOf(gateway, full)).toHaveLength(1)
      expect(await rowsOf(gateway, requestId(response))).toMatchObject([
        { model: free, status: "ok" },
        { model, status: "fallback_429", charge_micro: 0n },
      ])
    },
  )
})

describe(covers("5.no-leak", "3.once"), () => {
  test("after a storm of faults and of clients that leave, every slot and all money is there", async () => {
    await using stormy = await startTestGateway({
      env: {
        CAPACITY_WAIT_MS: "400",
        HEARTBEAT_MS: "50",
        UPSTREAM_START_TIMEOUT_MS: "2000",
        UPSTREAM_IDLE_TIMEOUT_MS: "600",
        DRAIN_LEFT_MS: "200",
      },
    })
    const payer = await stormy.person(1_000_000)
    const { key } = await stormy.key(payer)
    const cap = 3
    const faults = [
      "",
      "usage=none",
      "fault=status&status=400",
      "fault=status&status=429",
      "fault=status&status=500",
      "fault=refuse",
      "fault=silent",
      "fault=cut&after=1",
      "fault=cut&after=preamble",
      "fault=reset&after=1",
      "fault=garbage&after=0",
      "fault=error-event&after=1",
      "fault=stall&after=1&stall=60000",
      "fault=context",
      "output=500&pace=2",
    ]
    const models = await Promise.all(
      formats.flatMap((format) =>
        faults.map(async (script) => ({ format, id: await stormy.model({ format, script, max_concurrency: cap }) })),
      ),
    )
    const storm = models.flatMap(({ format, id }) =>
      [0, 1, 2, 3].map(async (turn) => {
        const leaving = new AbortController()
        if (turn > 0) setTimeout(() => leaving.abort(), turn * 60)
        const response = await ask(stormy, key, format, id, { stream: turn !== 2 }, { signal: leaving.signal })
        if (turn === 3) await new Reading(response).until(/\n\n/)
        else await response.text()
      }),
    )
    await Promise.allSettled(storm)
    await eventually(
      "nothing is held",
      () => stormy.balance(payer),
      ({ held_micro }) => held_micro === 0,
    )
    expect(await stormy.sql`select from openings where account_id = ${payer.accountId}`).toHaveLength(0)
    const [sums] = await stormy.sql`
      select (select posted_micro from balances where account_id = ${payer.accountId}) as posted,
        (select coalesce(sum(charge_micro), 0)::bigint from usage where account_id = ${payer.accountId}) as charged`
    expect(BigInt(sums?.["posted"]) + BigInt(sums?.["charged"])).toBe(1_000_000_000_000n)
    // A cap that lost a slot does not serve so many at once any more.
    for (const { format, id } of models) {
      await stormy.model({ format, model: id, script: SILENT, max_concurrency: cap })
    }
    const running = (id: string) =>
      callsOf(stormy, id).filter(({ script, outcome }) => script?.ttftMs === 60_000 && outcome === "running").length
    // One format after the other: clients and gateway are one process here, which has 256 requests at a time.
    for (const format of formats) {
      const leaving = new AbortController()
      const ids = models.filter((model) => model.format === format).map(({ id }) => id)
      for (const id of ids)
        for (let call = 0; call < cap; call++)
          ask(stormy, key, format, id, {}, { signal: leaving.signal }).catch(() => {})
      await eventually(
        "every slot is taken",
        () => ids.filter((id) => running(id) !== cap),
        (others) => others.length === 0,
      )
      leaving.abort()
    }
  })
})

/** The most calls that ran at one moment. */
function overlap(calls: readonly { startedAt: number; endedAt: number | undefined }[]): number {
  const at = (moment: number) =>
    calls.filter((call) => call.startedAt <= moment && (call.endedAt ?? Infinity) > moment).length
  return Math.max(0, ...calls.map(({ startedAt }) => at(startedAt)))
}
