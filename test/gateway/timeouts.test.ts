import { describe, expect, test } from "bun:test"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { attempt } from "../../src/gateway/attempt.ts"
import { IdleTimer, type TimeoutLimits, type TimeoutReason, Timeouts } from "../../src/gateway/timeouts.ts"
import { connectionFault } from "../../src/upstream/client.ts"
import { flush } from "../kernel/world.ts"

const limits: TimeoutLimits = { upstreamStartMs: 100_000, upstreamIdleMs: 10_000, upstreamAnswerMs: 1_000_000 }

function started(over: Partial<TimeoutLimits> = {}) {
  const clock = new VirtualClock()
  const reasons: TimeoutReason[] = []
  const timeouts = new Timeouts(clock, { ...limits, ...over }, (reason) => {
    reasons.push(reason)
    timeouts.stop(reason)
  })
  return { clock, reasons, timeouts }
}

describe("the time-outs of a call", () => {
  test("end the wait for the first content at its time, and not before", () => {
    const { clock, reasons, timeouts } = started()
    timeouts.startWaiting()
    clock.advance(99_998)
    expect([reasons, timeouts.signal.aborted]).toEqual([[], false])
    clock.advance(2)
    expect([reasons, timeouts.signal.aborted]).toEqual([["start"], true])
    expect(timeouts.explain(connectionFault(true)).failure.message).toContain("did not begin")
  })

  test("end a silence after the content at its own time, which is shorter than that for the start", () => {
    const { clock, reasons, timeouts } = started()
    timeouts.startWaiting()
    timeouts.onContent()
    clock.advance(9_000)
    timeouts.onActivity()
    clock.advance(9_998)
    expect(reasons).toEqual([])
    clock.advance(2)
    expect(reasons).toEqual(["idle"])
    expect(timeouts.explain(connectionFault(true)).failure.message).toContain("fell silent")
  })

  test("end an answer that is never silent", () => {
    const { clock, reasons, timeouts } = started({ upstreamAnswerMs: 50_000 })
    timeouts.startWaiting()
    timeouts.onContent()
    for (let second = 0; second < 49; second++) {
      timeouts.onActivity()
      clock.advance(1_000)
    }
    timeouts.onActivity()
    clock.advance(998)
    expect(reasons).toEqual([])
    clock.advance(2)
    expect(reasons).toEqual(["whole"])
  })

  test("end at the time for the whole a call whose content may take longer than that", () => {
    const { clock, reasons, timeouts } = started({ upstreamAnswerMs: 50_000 })
    timeouts.startWaiting()
    clock.advance(49_998)
    expect(reasons).toEqual([])
    clock.advance(2)
    expect(reasons).toEqual(["whole"])
  })

  test("do not count the time in which no backend is waited for", () => {
    const { clock, reasons, timeouts } = started()
    timeouts.onContent()
    clock.advance(60_000)
    timeouts.startWaiting()
    clock.advance(9_000)
    timeouts.stopWaiting()
    timeouts.onActivity()
    clock.advance(60_000)
    expect(reasons).toEqual([])
  })

  test("end the silence of a backend that is asked after the content at its own time", () => {
    const { clock, reasons, timeouts } = started()
    timeouts.onContent()
    clock.advance(1_000)
    timeouts.startWaiting()
    clock.advance(9_998)
    expect(reasons).toEqual([])
    clock.advance(2)
    expect(reasons).toEqual(["idle"])
  })

  test("say how long another try may take to begin", () => {
    const { clock, timeouts } = started()
    clock.advance(30_000)
    expect(timeouts.startLeftMs).toBe(70_000)
  })

  test("that are stopped explain nothing by time", () => {
    const { timeouts } = started()
    const fault = connectionFault(true)
    expect(timeouts.explain(fault)).toBe(fault)
    timeouts.stop("stopped")
    timeouts.stop("idle")
    expect(timeouts.reason).toBe("stopped")
    expect(timeouts.explain(fault)).toMatchObject({ retryAfterMs: undefined })
    expect(timeouts.explain(fault).failure.detail.stream).toBeUndefined()
  })

  test("are over with their call", () => {
    const { clock, reasons, timeouts } = started()
    timeouts.startWaiting()
    timeouts.end()
    clock.advance(2_000_000)
    expect(reasons).toEqual([])
  })
})

function heard() {
  const clock = new VirtualClock()
  const began = clock.monotonic()
  const beats: number[] = []
  const timer = new IdleTimer({ clock, limits: { heartbeatMs: 8_000 } }, () => {
    beats.push(clock.monotonic() - began)
    timer.activity()
  })
  return { clock, beats, timer }
}

describe("the heartbeats of a client", () => {
  test("come at each silence of their length, counted from the last write", () => {
    const { clock, beats, timer } = heard()
    clock.advance(5_000)
    timer.start()
    clock.advance(6_000)
    timer.activity()
    clock.advance(7_998)
    expect(beats).toEqual([])
    clock.advance(2)
    expect(beats).toHaveLength(1)
    clock.advance(16_000)
    expect(beats.map((at) => Math.round(at / 100))).toEqual([190, 270, 350])
  })

  test("do not come while something is written, nor after the end", () => {
    const { clock, beats, timer } = heard()
    timer.start()
    for (let second = 0; second < 40; second++) {
      clock.advance(1_000)
      timer.activity()
    }
    expect(beats).toEqual([])
    timer.end()
    // A timer that is left would keep the call in memory.
    expect(clock.runNext()).toBeFalse()
  })

  test("are over where one of them ends the response", () => {
    const clock = new VirtualClock()
    let beats = 0
    const timer = new IdleTimer({ clock, limits: { heartbeatMs: 8_000 } }, () => {
      beats++
      timer.end()
    })
    timer.start()
    clock.advance(60_000)
    expect(beats).toBe(1)
    expect(clock.runNext()).toBeFalse()
  })
})

/** A backend's answer of so many characters to a call for vectors, whose account has taken so much of the thread lately. */
async function vectors({ length, usedMs = 701 }: { length: number; usedMs?: number }) {
  const { clock, timeouts, reasons } = started()
  const use = { ms: usedMs }
  const member = { id: "m", backend: { provider: { baseUrl: "http://backend", headers: {} }, apiKey: "" } }
  const call = {
    admission: { seat: { member, requestSent() {}, onContent() {}, onSuccess() {}, onFailure() {} } },
    caller: { record: { accountId: "acc" } },
    ports: {
      clock,
      fetch: async () => new Response(JSON.stringify({ data: "x".repeat(length - 11) })),
      health: { watch: () => ({ content() {}, ended() {} }) },
      threadTime: { by: () => use.ms, add() {} },
    },
    timeouts,
    costs: { begin: () => ({ output: { whole() {} }, setCounts() {} }) },
    clientHeaders: new Headers(),
    plan: { requestBytes: 0 },
    onContent: () => timeouts.onContent(),
  }
  const turn = {
    request: { endpoint: "embeddings", prompts: 100, stream: false, choices: 1, body: {} },
    offer: { model: { id: "m" } },
    exchange: {
      backend: "chat",
      path: "/embeddings",
      encodeRequest: () => ({}),
      readReply: (body: object) => ({ body, tokens: undefined, searches: 0 }),
    },
    answerLimit: 0,
  }
  const answer: { kind?: string } = {}
  void attempt(call as unknown as Parameters<typeof attempt>[0], turn as unknown as Parameters<typeof attempt>[1]).then(
    ({ kind }) => (answer.kind = kind),
  )
  await flush()
  await flush()
  /** What has come of the call after so many milliseconds more. */
  const after = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 100) {
      clock.advance(Math.min(100, ms - passed))
      await flush()
    }
    return answer.kind
  }
  return { after, use, reasons }
}

describe("large vectors of an account that has used much of the thread", () => {
  test("wait until it has not lately, looking five times a second", async () => {
    const { after, use } = await vectors({ length: 262_145 })
    expect(await after(999)).toBeUndefined()
    use.ms = 700
    expect([await after(0), await after(1)]).toEqual([undefined, "answered"])
  })

  test("wait for no one who has used little, and smaller ones not at all", async () => {
    for (const given of [{ length: 262_145, usedMs: 700 }, { length: 262_144 }])
      expect(await (await vectors(given)).after(0)).toBe("answered")
  })

  test("are answered when the time for the first content is over, for they have come", async () => {
    const { after, reasons } = await vectors({ length: 262_145 })
    expect([await after(99_800), reasons]).toEqual([undefined, []])
    expect([await after(200), reasons]).toEqual(["answered", ["start"]])
  })
})
