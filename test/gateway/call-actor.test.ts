/**
 * A call as an actor, from its admission to its end, with purses of its own: what holds its money, its slots and its place when an event
 * comes early, late or never. The test answers as its backends, its ledger and its disk.
 */
import { describe, expect, test } from "bun:test"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { micro, zero } from "../../actors/money/micro.ts"
import { Failure } from "../../src/failure/failure.ts"
import { Call, type CallParts } from "../../src/gateway/call-actor.ts"
import { type Answer, UnreadBytes } from "../../src/gateway/outbox.ts"
import { type BackendAlert, CallsInFlight, type FinishedCall } from "../../src/gateway/ports.ts"
import { exchange } from "../../src/wire/exchange.ts"
import { decodeRequest, messagesFormat } from "../../src/wire/messages/format.ts"
import { flush } from "../kernel/world.ts"
import { counts, text } from "../search/turns-backend.ts"
import { actorsWith, all, FULL } from "./paying-actors.ts"

const rate = micro(1n)
const LIMITS = {
  capacityWaitMs: 1_000,
  heartbeatMs: 100,
  settleDeadlineMs: 1_000,
  upstreamStartMs: 10_000,
  upstreamIdleMs: 10_000,
  upstreamAnswerMs: 100_000,
  drainLeftMs: 5_000,
  readerStallMs: 10_000,
}

interface Given {
  /** To take a seat at this model meets a bug. */
  readonly broken?: string
  /** So does to tell of its end. */
  readonly endsBroken?: boolean
  readonly stream?: boolean
  /** Another model may answer where the first throttles. */
  readonly hasOther?: boolean
  readonly takesRoom?: boolean
}

const nothing = () => {}

async function startCall({ stream = false, hasOther = false, takesRoom = true, broken, endsBroken }: Given = {}) {
  const { actors, taken } = actorsWith(FULL)
  const clock = new VirtualClock()
  clock.advance(500)
  const body = { model: "m", max_tokens: 20, stream, messages: [{ role: "user", content: "Hi" }] }
  const request = decodeRequest(body)
  if (request instanceof Failure) throw new Error(request.message)
  const asked = exchange(request, { format: "messages", model: "m" })
  if (asked instanceof Failure) throw new Error(asked.message)
  const opened = Promise.withResolvers<"durable" | Failure>()
  const settled = Promise.withResolvers<"durable" | Failure>()
  const kept = Promise.withResolvers<void>()
  const slot = Promise.withResolvers<{ readonly kind: "acquired" | "full" }>()
  const responses: ((response: Response) => void)[] = []
  const signals: AbortSignal[] = []
  const slots: string[] = []
  const seats: string[] = []
  const said: string[] = []
  const finished: FinishedCall[] = []
  const released: unknown[] = []
  const inFlight = new CallsInFlight()
  const draining = new AbortController()
  const acquired = { kind: "acquired" } as const
  const ports = {
    actors: {
      ...actors,
      models: {
        acquire(model: string) {
          slots.push(model)
          return model === "other" ? slot.promise : acquired
        },
        release: (model: string) => void (slots.includes(model) && slots.splice(slots.indexOf(model), 1)),
      },
      gate: { acquire: () => acquired, release: nothing },
      ledger: {
        open: () => opened.promise,
        settle: () => settled.promise,
        void: () => said.push("void"),
        whenDurable: nothing,
      },
    },
    clock,
    limits: LIMITS,
    unread: new UnreadBytes(1_000_000),
    catalogue: { largestWindow: 1_000, costing: () => undefined },
    withdrawals: {
      async keep() {
        said.push("keep")
        await kept.promise
      },
      forget: nothing,
    },
    fetch: (_: string, { signal }: { readonly signal: AbortSignal }) =>
      new Promise<Response>((resolve, reject) => {
        responses.push(resolve)
        signal.addEventListener("abort", () => reject(new Error("aborted")))
        signals.push(signal)
      }),
    health: { watch: () => ({ content: nothing, ended: nothing }) },
    refusals: { add: nothing, by: () => 0 },
    calibration: { learn: nothing },
    factors: { learn: nothing },
    random: () => 0,
    admitted: nothing,
    finished(one: FinishedCall) {
      finished.push(one)
      if (endsBroken) throw new Error("a bug")
    },
    alerted: (alert: BackendAlert) => said.push(JSON.stringify(alert)),
    crashed: () => said.push("crash"),
    draining: draining.signal,
    inFlight,
  }
  const candidate = (id: string) => ({
    offer: {
      model: { id, contextWindow: 1_000, maxOutputTokens: 20, gather: false },
      price: { id: 1n, rates: { input: rate, output: rate, cacheRead: rate, cacheWrite: rate } },
    },
    minAnswerTokens: 1,
    members: {
      isAlone: true,
      acquire() {
        if (id === broken) throw new Error("a bug")
        seats.push(id)
        return {
          exchange: asked,
          member: {
            id,
            upstream: { provider: "b" },
            backend: { provider: { baseUrl: "http://b", headers: {} }, apiKey: "k" },
          },
          requestSent: nothing,
          onContent: nothing,
          onSuccess: nothing,
          onFailure: nothing,
          release: () => void seats.splice(seats.indexOf(id), 1),
        }
      },
    },
  })
  const others = hasOther ? [candidate("other")] : []
  const call = new Call({
    ports,
    format: messagesFormat.client,
    requestId: "req_1",
    caller: { keyHash: "key", record: { accountId: "acc", keyId: "key" } },
    run: { runId: "run_1" },
    plan: { ...candidate("m"), request, inputEstimate: { likely: 0, most: 0, least: 0, texts: 1, documents: 0 } },
    chain: { first: candidate("m"), markers: [], next: async () => others.shift() },
    openedAt: 0,
    clientHeaders: new Headers(),
    connection: undefined,
    shared: undefined,
    trace: undefined,
    takesRoom: () => takesRoom,
    release: (record: unknown) => released.push(record),
  } as unknown as CallParts)
  let told: Answer | Failure | undefined
  void call.answer.then((answer) => (told = answer))
  return {
    call,
    clock,
    opened,
    settled,
    kept,
    slot,
    responses,
    signals,
    said,
    finished,
    draining,
    told: () => told,
    /** What the call has of others, and whether it was let go. */
    has: async () => {
      await flush()
      return { purses: await taken(), slots, seats, inFlight: inFlight.size, released: released.length }
    },
  }
}

const GONE = { purses: all(0n), slots: [], seats: [], inFlight: 0, released: 1 }
const HELD = { slots: ["m"], seats: ["m"], inFlight: 1, released: 0 }
const bodyOf = (told: Answer | Failure | undefined) =>
  told === undefined || told instanceof Failure ? undefined : new Response(told.body).text()
const codeOf = (told: Answer | Failure | undefined) => (told instanceof Failure ? told.code : undefined)
const reply = (usage = counts(10, 5)) =>
  Response.json({
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "m",
    content: [text("Hi.")],
    stop_reason: "end_turn",
    stop_sequence: null,
    usage,
  })
const throttled = () => Response.json({ type: "error", error: { type: "rate_limit_error" } }, { status: 429 })

test("an answer is told when its charge is durable, and what it held beyond that is free", async () => {
  const { call, clock, opened, settled, responses, told, has, finished } = await startCall()
  clock.advance(1_000)
  call.begin()
  expect(await has()).toMatchObject(HELD)
  opened.resolve("durable")
  clock.advance(70)
  responses[0]?.(reply())
  await flush()
  clock.advance(20)
  expect([call.state, told()]).toEqual(["settling", undefined])
  settled.resolve("durable")
  const { purses, ...rest } = await has()
  expect(purses).toEqual(all(15n, ["key", "run_1", "acc"]))
  expect(rest).toEqual({ slots: [], seats: [], inFlight: 0, released: 1 })
  expect(told()).toMatchObject({ headers: { "X-Cost-Rp": "0.000015" } })
  expect(finished).toMatchObject([
    {
      requestId: "req_1",
      durable: true,
      alert: false,
      record: { status: "ok", charge: micro(15n), attempts: 1, firstTokenMs: 1_070, durationMs: 1_070 },
    },
  ])
})

test("a backend that refuses the operator's key is told of, and the call's record has it", async () => {
  const { call, opened, settled, responses, has, finished, said } = await startCall()
  call.begin()
  opened.resolve("durable")
  await flush()
  responses[0]?.(Response.json({ type: "error", error: { type: "authentication_error" } }, { status: 401 }))
  await flush()
  settled.resolve("durable")
  expect(await has()).toEqual(GONE)
  expect(said.map((one) => JSON.parse(one) as unknown)).toEqual([
    { requestId: "req_1", model: "m", provider: "b", member: "m", status: 401 },
  ])
  expect(finished).toMatchObject([{ alert: true, record: { status: "upstream_error", firstTokenMs: undefined } }])
})

const event = (body: { readonly type: string; readonly [name: string]: unknown }) =>
  `event: ${body.type}\ndata: ${JSON.stringify(body)}\n\n`

describe("a stream", () => {
  const usage = counts(10, 5)
  const more = (said: string) =>
    event({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: said } })
  const starts = event({ type: "message_start", message: { id: "msg_1", content: [], usage } })
  const begins = starts + event({ type: "content_block_start", index: 0, content_block: text("") }) + more("Hi.")
  const ends =
    event({ type: "content_block_stop", index: 0 }) +
    event({ type: "message_delta", delta: { stop_reason: "end_turn" }, usage }) +
    event({ type: "message_stop" })

  async function startStream(opened?: "durable", first = begins) {
    const world = await startCall({ stream: true })
    world.call.begin()
    if (opened !== undefined) world.opened.resolve(opened)
    await flush()
    const pipe = new TransformStream<string, string>()
    const writer = pipe.writable.getWriter()
    world.responses[0]?.(
      new Response(pipe.readable.pipeThrough(new TextEncoderStream()), {
        headers: { "Content-Type": "text/event-stream" },
      }),
    )
    const says = async (bytes: string) => {
      void writer.write(bytes).catch(() => {})
      for (let n = 0; n < 5; n++) await flush()
    }
    await says(first)
    const breaks = () => void writer.abort(new Error("reset")).catch(() => {})
    return { ...world, says, breaks }
  }

  test("has its head when the opening is durable, and its end when the charge is", async () => {
    const { call, clock, opened, settled, told, has, says, finished } = await startStream()
    expect([call.state, call.isClientWaiting, told()]).toEqual(["relaying", true, undefined])
    opened.resolve("durable")
    await flush()
    expect(told()).toMatchObject({ headers: { "X-Accel-Buffering": "no" } })
    clock.advance(30)
    // As of a turn that comes after a search.
    call.onContent()
    await says(ends)
    expect(call.state).toBe("settling")
    settled.resolve("durable")
    expect(await has()).toMatchObject({ slots: [], seats: [], inFlight: 0, released: 1 })
    const body = await bodyOf(told())
    expect(body).toMatch(/^event: message_start\n[^]*Hi\.[^]*\n: cost_micro=15 request_id=req_1\nevent: message_stop\n/)
    expect(finished).toMatchObject([{ record: { status: "ok", firstTokenMs: 0, durationMs: 30 } }])
  })

  test("whose opening is not durable says nothing of what it has, nor of what still comes", async () => {
    const { call, opened, kept, told, has, says } = await startStream()
    opened.resolve(new Failure("dependency.database_unavailable"))
    await flush()
    expect([call.state, told()]).toEqual(["withdrawing", undefined])
    await says(ends)
    expect(await has()).toEqual({ ...GONE, inFlight: 1, released: 0 })
    kept.resolve()
    expect(await has()).toEqual(GONE)
    expect(codeOf(told())).toBe("dependency.database_unavailable")
  })

  test("whose charge is not durable either says so once, whenever the ledger says of its opening", async () => {
    for (const isKept of [false, true]) {
      const { call, opened, settled, kept, told, has, says, said } = await startStream()
      await says(ends)
      settled.resolve(away)
      await flush()
      if (isKept) kept.resolve()
      await flush()
      expect([call.state, told()]).toEqual([isKept ? "done" : "withdrawing", undefined])
      opened.resolve(away)
      await flush()
      kept.resolve()
      expect(await has()).toEqual(GONE)
      expect([codeOf(told()), said]).toEqual(["dependency.database_unavailable", ["void", "keep"]])
    }
  })

  test("that ends before its opening is durable has its head with the charge, or with the next heartbeat", async () => {
    const { call, clock, opened, settled, told, says } = await startStream()
    await says(ends)
    opened.resolve("durable")
    await flush()
    expect([call.state, told()]).toEqual(["settling", undefined])
    clock.advance(LIMITS.heartbeatMs)
    await flush()
    expect(told()).toMatchObject({ headers: { "X-Accel-Buffering": "no" } })
    settled.resolve("durable")
    await flush()
    expect(await bodyOf(told())).toContain("event: message_stop")
  })

  test("whose charge is durable is told, whatever the ledger says of its opening later", async () => {
    const { call, opened, settled, told, has, says, said } = await startStream()
    await says(ends)
    settled.resolve("durable")
    expect(await has()).toMatchObject({ slots: [], seats: [], inFlight: 0, released: 1 })
    const body = bodyOf(told())
    opened.resolve(away)
    await flush()
    expect([call.state, said]).toEqual(["done", []])
    expect(await body).toContain(": cost_micro=15 request_id=req_1\nevent: message_stop\n")
  })

  test("that has begun and says nothing yet is begun in a heartbeat's place, and kept company by heartbeats then", async () => {
    const { call, clock, settled, told, says } = await startStream("durable", starts)
    expect(told()).toBeUndefined()
    clock.advance(LIMITS.heartbeatMs)
    await flush()
    const body = bodyOf(told())
    expect([call.state, call.firstTokenMs]).toEqual(["relaying", undefined])
    clock.advance(LIMITS.heartbeatMs)
    await says(begins.slice(starts.length) + ends)
    settled.resolve("durable")
    expect(await body).toMatch(/^event: message_start\n[^:]*[^]*\n\n: heartbeat\nevent: content_block_start\n/)
  })

  test("whose charge is not durable in time ends as it is, and nothing is charged", async () => {
    const { opened, settled, kept, told, has, says, finished } = await startStream()
    opened.resolve("durable")
    await says(ends)
    settled.resolve(new Failure("dependency.database_unavailable"))
    kept.resolve()
    expect(await has()).toEqual(GONE)
    expect(await bodyOf(told())).toContain(": cost_micro=0 request_id=req_1\nevent: message_stop\n")
    expect(finished).toMatchObject([{ durable: false, record: { status: "billing_error", charge: zero } }])
  })

  test("whose client leaves is charged for what its backend counts", async () => {
    const { call, opened, settled, has, says, finished } = await startStream()
    opened.resolve("durable")
    await flush()
    call.leave()
    expect([call.state, call.isClientWaiting]).toEqual(["draining", false])
    await says(ends)
    settled.resolve("durable")
    expect(await has()).toMatchObject({ slots: [], seats: [], inFlight: 0, released: 1 })
    expect(finished).toMatchObject([{ durable: true, record: { status: "ok", charge: micro(15n) } }])
  })

  test.each([
    ["whose client has left and which is read on for too long is not counted", "leaves", "usage_missing"],
    ["whose client has left is its backend's fault when that breaks it off", "breaks", "upstream_error"],
    ["that is stopped while its client reads it is no fault of the count", "stops", "upstream_error"],
  ] as const)("%s", async (_, ends, status) => {
    const { call, clock, settled, has, breaks, finished } = await startStream("durable")
    if (ends === "stops") call.stop()
    else call.leave()
    if (ends === "leaves") clock.advance(LIMITS.drainLeftMs)
    breaks()
    await flush()
    settled.resolve("durable")
    expect(await has()).toEqual(GONE)
    expect(finished).toMatchObject([{ record: { status, charge: zero, flagged: status === "usage_missing" } }])
  })

  test("whose client leaves before it says anything is answered in the end, so that nobody waits for it for good", async () => {
    const { call, settled, told, has, says, finished } = await startStream("durable", starts)
    call.leave()
    await says(begins.slice(starts.length) + ends)
    expect(told()).toBeUndefined()
    settled.resolve("durable")
    expect(await has()).toMatchObject({ slots: [], seats: [], inFlight: 0, released: 1 })
    expect(finished).toMatchObject([{ record: { status: "ok", charge: micro(15n) } }])
    expect(told()).toMatchObject({ headers: { "X-Accel-Buffering": "no" } })
  })

  test("that is silent is kept company by heartbeats, with a head as soon as the opening is durable", async () => {
    const { call, clock, opened, settled, told, has } = await startCall({ stream: true })
    call.begin()
    await flush()
    clock.advance(LIMITS.heartbeatMs)
    expect(told()).toBeUndefined()
    opened.resolve("durable")
    await flush()
    expect(told()).toMatchObject({ headers: { "Content-Type": "text/event-stream; charset=utf-8" } })
    call.stop()
    await flush()
    settled.resolve("durable")
    expect(await has()).toEqual(GONE)
    expect(await bodyOf(told())).toMatch(/^: heartbeat\n[^]*event: error\n/)
  })

  test("in which a bug comes ends with that, and nothing of its backend is told any more, nor charged", async () => {
    const { call, opened, kept, told, has, says } = await startStream()
    opened.resolve("durable")
    await flush()
    call.receive({ type: "crashed", error: new Error("a bug") })
    await says(more("Late."))
    kept.resolve()
    expect(await has()).toEqual(GONE)
    await says(more("Later."))
    const body = await bodyOf(told())
    expect(body).toMatch(/Hi\.[^]*event: error\n/)
    expect(body).not.toContain("Late")
  })

  test("in which another bug comes before the first is kept ends at once, with the failure at its end", async () => {
    const { call, told, has } = await startStream("durable")
    call.receive({ type: "crashed", error: new Error("a bug") })
    call.receive({ type: "crashed", error: new Error("another") })
    expect(await has()).toEqual(GONE)
    expect([call.state, call.hasLeft]).toEqual(["done", false])
    expect(await bodyOf(told())).toMatch(/Hi\.[^]*event: error\n/)
  })

  test("goes on while its backend speaks, and is broken off when that falls silent", async () => {
    const { call, clock, settled, signals, told, has, says, breaks, finished } = await startStream("durable")
    // Its head goes with its first words.
    expect(told()).toMatchObject({ headers: { "X-Accel-Buffering": "no" } })
    const body = bodyOf(told())
    for (let n = 0; n < 3; n++) {
      clock.advance(LIMITS.upstreamIdleMs - 100)
      await says(more("More."))
    }
    expect([call.state, signals[0]?.aborted]).toEqual(["relaying", false])
    clock.advance(LIMITS.upstreamIdleMs)
    expect(signals[0]?.aborted).toBeTrue()
    breaks()
    await flush()
    settled.resolve("durable")
    expect(await has()).toEqual(GONE)
    expect(finished).toMatchObject([{ record: { status: "upstream_error", charge: zero } }])
    expect(await body).toContain("fell silent")
  })
})

test.each([
  ["its client has left", { leaves: true }],
  ["the gateway ends", { drains: true }],
  ["its answer finds no room", { takesRoom: false }],
] as const)("a call that is admitted when %s is refused, and has nothing", async (_, given: object) => {
  const {
    leaves = false,
    drains = false,
    ...rest
  } = given as { leaves?: boolean; drains?: boolean; takesRoom?: boolean }
  const { call, draining, told, has, responses } = await startCall(rest)
  if (leaves) call.leave()
  if (drains) draining.abort()
  call.begin()
  expect(await has()).toEqual(GONE)
  expect([call.state, codeOf(told()), call.isBooked, responses.length]).toEqual(["done", "gateway.capacity", false, 0])
})

test("a call whose opening is not durable is withdrawn when it owes a head, and says so when that is kept", async () => {
  const { call, clock, opened, kept, told, has, said, finished } = await startCall({ stream: true })
  call.begin()
  opened.resolve(new Failure("dependency.database_unavailable"))
  // As long as it owes nothing its backend may still answer.
  expect(await has()).toMatchObject(HELD)
  expect(call.state).toBe("trying")
  clock.advance(LIMITS.heartbeatMs)
  expect(await has()).toEqual({ ...GONE, inFlight: 1, released: 0 })
  expect([call.state, said, told()]).toEqual(["withdrawing", ["void", "keep"], undefined])
  expect(call.isClientWaiting).toBeFalse()
  kept.resolve()
  expect(await has()).toEqual(GONE)
  expect(codeOf(told())).toBe("dependency.database_unavailable")
  const errorCode = "dependency.database_unavailable"
  expect(finished).toMatchObject([{ durable: false, record: { status: "billing_error", charge: zero, errorCode } }])
})

test("a charge that is durable stands, whatever became of the opening", async () => {
  const { call, opened, settled, responses, told, has, said } = await startCall()
  call.begin()
  opened.resolve(new Failure("dependency.database_unavailable"))
  await flush()
  responses[0]?.(reply())
  await flush()
  settled.resolve("durable")
  expect(await has()).toMatchObject({ slots: [], seats: [], inFlight: 0, released: 1 })
  expect(told()).toMatchObject({ headers: { "X-Cost-Rp": "0.000015" } })
  expect(said).toEqual([])
})

async function startRerouted() {
  const world = await startCall({ stream: true, hasOther: true })
  world.call.begin()
  await flush()
  world.responses[0]?.(throttled())
  // It waits for a slot of the other model, and holds for it.
  expect(await world.has()).toMatchObject({ slots: ["other"], seats: [], inFlight: 1, released: 0 })
  return world
}

describe("what a call is admitted to after it was withdrawn is given back at once", () => {
  test("while it is being kept that nothing is charged", async () => {
    const { call, clock, opened, kept, slot, responses, told, has } = await startRerouted()
    opened.resolve(new Failure("dependency.database_unavailable"))
    await flush()
    clock.advance(LIMITS.heartbeatMs)
    slot.resolve({ kind: "acquired" })
    expect(await has()).toEqual({ ...GONE, inFlight: 1, released: 0 })
    expect(call.state).toBe("withdrawing")
    kept.resolve()
    expect(await has()).toEqual(GONE)
    expect([codeOf(told()), responses.length]).toEqual(["dependency.database_unavailable", 1])
  })

  test("when all is said, in a stream that has begun", async () => {
    const { call, clock, opened, kept, slot, responses, told, has } = await startRerouted()
    opened.resolve("durable")
    await flush()
    clock.advance(LIMITS.heartbeatMs)
    call.receive({ type: "crashed", error: new Error("a bug") })
    kept.resolve()
    await flush()
    expect([call.state, call.hasLeft]).toEqual(["done", false])
    slot.resolve({ kind: "acquired" })
    expect(await has()).toEqual(GONE)
    expect(responses).toHaveLength(1)
    expect(await bodyOf(told())).toMatch(/^: heartbeat\n[^]*event: error\n/)
  })
})

test.each([
  ["before its stream has begun", "", [undefined, undefined]],
  ["when it has begun", "message_start", ["other", "m"]],
] as const)(
  "a head that is due %s names the other model if it can be no third one any more",
  async (_, type, names) => {
    const { clock, opened, slot, responses, told } = await startRerouted()
    opened.resolve("durable")
    slot.resolve({ kind: "acquired" })
    await flush()
    const { readable, writable } = new TransformStream<string, string>()
    const bytes = readable.pipeThrough(new TextEncoderStream())
    responses[1]?.(new Response(bytes, { headers: { "Content-Type": "text/event-stream" } }))
    const message = { id: "msg_1", content: [], usage: counts(10, 5) }
    if (type !== "") void writable.getWriter().write(event({ type, message }))
    for (let n = 0; n < 5; n++) await flush()
    expect(told()).toBeUndefined()
    clock.advance(LIMITS.heartbeatMs)
    await flush()
    const { headers } = told() as Answer
    expect([headers["X-Model"], headers["X-Rerouted-From"]]).toEqual([...names])
  },
)

test("a call that finds no slot of another model is charged nothing, and recorded under the model that it had", async () => {
  const { opened, settled, slot, told, has, finished } = await startRerouted()
  opened.resolve("durable")
  slot.resolve({ kind: "full" })
  await flush()
  settled.resolve("durable")
  expect(await has()).toEqual(GONE)
  expect(codeOf(told())).toBe("gateway.capacity")
  expect(finished).toMatchObject([{ record: { model: "m", status: "upstream_error", charge: zero } }])
})

test("a call that is admitted to another model holds for that one alone, and is charged under it", async () => {
  const { call, opened, settled, slot, responses, has, finished } = await startCall({ hasOther: true })
  call.begin()
  opened.resolve("durable")
  await flush()
  responses[0]?.(throttled())
  await flush()
  slot.resolve({ kind: "acquired" })
  expect(await has()).toMatchObject({ slots: ["other"], seats: ["other"], inFlight: 1 })
  responses[1]?.(reply())
  settled.resolve("durable")
  expect(await has()).toMatchObject({ slots: [], seats: [], inFlight: 0, released: 1 })
  expect(finished).toMatchObject([{ record: { model: "other", member: "other", attempts: 1, status: "ok" } }])
})

test("a whole answer whose charge is not durable in time is not given, and nothing is charged for it", async () => {
  const { call, opened, settled, kept, responses, told, has, said, finished } = await startCall()
  call.begin()
  opened.resolve("durable")
  await flush()
  responses[0]?.(reply())
  await flush()
  settled.resolve(new Failure("dependency.database_unavailable"))
  await flush()
  expect([call.state, said, told()]).toEqual(["withdrawing", ["void", "keep"], undefined])
  kept.resolve()
  expect(await has()).toEqual(GONE)
  expect(codeOf(told())).toBe("billing.reconcile_failed")
  expect(finished).toMatchObject([{ record: { status: "billing_error", errorCode: "billing.reconcile_failed" } }])
})

test("a client that leaves lets its backend be read on for a while, and then no longer", async () => {
  const { call, clock, opened, settled, has, finished } = await startCall()
  call.begin()
  opened.resolve("durable")
  await flush()
  clock.advance(LIMITS.drainLeftMs)
  call.leave()
  clock.advance(LIMITS.drainLeftMs - 1)
  expect(await has()).toMatchObject(HELD)
  expect([call.state, call.isClientWaiting]).toEqual(["draining", false])
  clock.advance(1)
  await flush()
  settled.resolve("durable")
  expect(await has()).toEqual(GONE)
  expect(finished).toMatchObject([{ record: { status: "upstream_error", charge: zero } }])
})

test("a client that leaves, and asks for the same answer again, has it read on for as long as it stays", async () => {
  const { call, clock, opened, settled, has } = await startCall()
  call.begin()
  opened.resolve("durable")
  await flush()
  // As where others may ask for the same answer: nobody reads it now, and somebody does again.
  call.receive({ type: "client-left" })
  clock.advance(LIMITS.drainLeftMs)
  expect(await has()).toMatchObject(HELD)
  call.leave()
  clock.advance(LIMITS.drainLeftMs)
  await flush()
  settled.resolve("durable")
  expect(await has()).toEqual(GONE)
})

test("a client that comes again just before its backend is given up, and leaves again, has it read on for the whole while from then", async () => {
  const { call, clock, opened, settled, has } = await startCall()
  call.begin()
  opened.resolve("durable")
  await flush()
  // Nobody reads it now, and somebody does again.
  call.receive({ type: "client-left" })
  clock.advance(LIMITS.drainLeftMs - 1)
  call.leave()
  clock.advance(LIMITS.drainLeftMs - 1)
  expect(await has()).toMatchObject(HELD)
  clock.advance(1)
  await flush()
  settled.resolve("durable")
  expect(await has()).toEqual(GONE)
})

test("a client that leaves while its call waits for a slot gives up its place at once", async () => {
  const { call, settled, slot, has } = await startRerouted()
  call.leave()
  expect(await has()).toMatchObject({ slots: [], seats: [] })
  slot.resolve({ kind: "full" })
  await flush()
  settled.resolve("durable")
  expect(await has()).toEqual(GONE)
})

test("a client that leaves while its backend is read on is charged for what comes of it", async () => {
  const { call, opened, settled, responses, has, finished, clock } = await startCall()
  call.begin()
  opened.resolve("durable")
  call.leave()
  // As where others may ask for the same answer: one more has left.
  call.receive({ type: "client-left" })
  await flush()
  responses[0]?.(reply())
  await flush()
  expect(call.state).toBe("settling")
  settled.resolve("durable")
  expect(await has()).toMatchObject({ slots: [], seats: [], inFlight: 0, released: 1 })
  expect(finished).toMatchObject([{ durable: true, record: { status: "ok", charge: micro(15n) } }])
  // Nothing of it is left to wait for.
  expect(clock.runNext()).toBeFalse()
})

test("a call that is stopped breaks its backend off", async () => {
  const { call, clock, opened, settled, told, has } = await startCall()
  call.begin()
  opened.resolve("durable")
  await flush()
  call.stop()
  await flush()
  settled.resolve("durable")
  expect(await has()).toEqual(GONE)
  expect(codeOf(told())).toBe("dependency.upstream_unavailable")
  expect(clock.runNext()).toBeFalse()
})

const away = new Failure("dependency.database_unavailable")

test.each([
  ["trying", "durable"],
  ["draining", "durable"],
  ["settling", "durable"],
  ["settling", away],
] as const)(
  "a bug while a call is %s charges nothing and holds nothing, whatever the ledger says later",
  async (state, later) => {
    const { call, clock, opened, settled, kept, responses, told, has, said } = await startCall()
    call.begin()
    opened.resolve("durable")
    await flush()
    if (state === "draining") call.leave()
    if (state === "settling") responses[0]?.(reply())
    await flush()
    expect(call.state).toBe(state)
    call.receive({ type: "crashed", error: new Error("a bug") })
    settled.resolve(later)
    await flush()
    expect([call.state, said]).toEqual(["withdrawing", ["crash", "void", "keep"]])
    kept.resolve()
    expect(await has()).toEqual(GONE)
    expect(codeOf(told())).toBe("internal.panic")
    expect(clock.runNext()).toBeFalse()
  },
)

test("a bug in the telling of a charge that is durable leaves nothing held, and its client not without an end", async () => {
  const { call, opened, settled, responses, told, has, said } = await startCall({ endsBroken: true })
  call.begin()
  opened.resolve("durable")
  await flush()
  responses[0]?.(reply())
  await flush()
  settled.resolve("durable")
  expect(await has()).toMatchObject({ slots: [], seats: [], inFlight: 0, released: 1 })
  expect([codeOf(told()), said]).toEqual(["internal.panic", ["crash"]])
})

test("a bug before a call is admitted ends it", async () => {
  const { call, told, has, said } = await startCall()
  call.receive({ type: "crashed", error: new Error("a bug") })
  expect(await has()).toEqual(GONE)
  expect([codeOf(told()), said]).toEqual(["internal.panic", ["crash"]])
})

describe("a bug while a call is admitted leaves nothing held", () => {
  test("at first", async () => {
    const { call, told, has, said } = await startCall({ broken: "m" })
    call.begin()
    expect(await has()).toEqual(GONE)
    expect([codeOf(told()), said]).toEqual(["internal.panic", ["crash"]])
  })

  test("to another model, of a stream that has begun", async () => {
    const { call, clock, opened, kept, slot, responses, told, has } = await startCall({
      stream: true,
      hasOther: true,
      broken: "other",
    })
    call.begin()
    opened.resolve("durable")
    await flush()
    clock.advance(LIMITS.heartbeatMs)
    responses[0]?.(throttled())
    await flush()
    expect(await has()).toMatchObject({ slots: ["other"] })
    slot.resolve({ kind: "acquired" })
    kept.resolve()
    expect(await has()).toEqual(GONE)
    expect(await bodyOf(told())).toMatch(/^: heartbeat\n[^]*event: error\n/)
  })
})
