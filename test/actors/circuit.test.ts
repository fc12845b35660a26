import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { Circuit, RetryBudget } from "../../actors/backend.ts"

/** A circuit that three failures have opened at 0. */
function opened(): Circuit {
  const circuit = new Circuit()
  for (let n = 0; n < 3; n++) circuit.onFailure(0, false)
  return circuit
}

describe("what opens a circuit", () => {
  test("three failures within 30 s, if they are half of what ended", () => {
    const circuit = new Circuit()
    circuit.onFailure(0, false)
    circuit.onFailure(0, false)
    expect(circuit.state(0)).toBe("closed")
    circuit.onFailure(1, false)
    expect(circuit.state(1)).toBe("open")
  })

  test("as many successes and one more keep it closed, until they are old", () => {
    const circuit = new Circuit()
    for (let n = 0; n < 4; n++) circuit.onSuccess(0)
    for (let n = 0; n < 3; n++) circuit.onFailure(20_000, false)
    expect(circuit.state(20_000)).toBe("closed")
    circuit.onFailure(33_000, false)
    expect(circuit.state(33_000)).toBe("open")
  })

  test("as many successes do not keep it closed: then half of what ended has failed", () => {
    const circuit = new Circuit()
    for (let n = 0; n < 3; n++) circuit.onSuccess(0)
    for (let n = 0; n < 3; n++) circuit.onFailure(0, false)
    expect(circuit.state(0)).toBe("open")
  })

  test("failures that are further apart do not", () => {
    const circuit = new Circuit()
    for (let n = 0; n < 20; n++) circuit.onFailure(n * 16_000, false)
    expect(circuit.state(20 * 16_000)).toBe("closed")
  })

  test("a 429 does at once, for as long as it says and a minute at the most; in silence for a second, then two", () => {
    const lasted = [7_000, 60_000, 3_600_000, undefined].map((retryAfterMs) => {
      const circuit = new Circuit()
      circuit.onThrottled(0, retryAfterMs, false)
      return circuit.reopensAt
    })
    expect(lasted).toEqual([7_000, 60_000, 60_000, 1_000])
    const circuit = new Circuit()
    circuit.onThrottled(0, undefined, false)
    circuit.onThrottled(500, undefined, false)
    expect(circuit.reopensAt).toBe(2_500)
    const long = new Circuit()
    long.onThrottled(0, 30_000, false)
    long.onThrottled(1_000, 2_000, false)
    expect(long.reopensAt).toBe(30_000)
  })
})

describe("a circuit that was closed again", () => {
  test("has forgotten what ended before: three more failures open it, for 5 s once something succeeded, and not fewer", () => {
    const circuit = new Circuit()
    for (let n = 0; n < 3; n++) circuit.onSuccess(0)
    for (let n = 0; n < 3; n++) circuit.onFailure(0, false)
    circuit.onFailure(5_000, circuit.beginCall(5_000))
    circuit.endProbe()
    expect(circuit.reopensAt).toBe(15_000)
    circuit.beginCall(15_000)
    circuit.onContent(15_000)
    expect(circuit.isClosed).toBeTrue()
    circuit.onSuccess(15_001)
    for (let n = 0; n < 2; n++) circuit.onFailure(16_000, false)
    expect(circuit.isClosed).toBeTrue()
    circuit.onFailure(16_000, false)
    expect([circuit.isClosed, circuit.reopensAt]).toEqual([false, 21_000])
  })

  test("opens for longer than before where nothing had succeeded in between", () => {
    const circuit = opened()
    circuit.beginCall(5_000)
    circuit.onContent(5_000)
    for (let n = 0; n < 3; n++) circuit.onFailure(6_000, false)
    expect(circuit.reopensAt).toBe(16_000)
  })

  test("lets a call through when it is half-open again, though the call that closed it goes on, or others do", () => {
    const circuit = opened()
    circuit.beginCall(5_000)
    circuit.onContent(5_000)
    circuit.beginCall(5_500)
    for (let n = 0; n < 3; n++) circuit.onFailure(6_000, false)
    expect([circuit.allows(15_999), circuit.allows(16_000)]).toEqual([false, true])
    const first = new Circuit()
    first.beginCall(0)
    first.onThrottled(0, 1_000, false)
    expect(first.allows(1_000)).toBeTrue()
  })
})

test("content of one call does not make the failures of others undone", () => {
  const circuit = new Circuit()
  circuit.onFailure(0, false)
  circuit.onFailure(1, false)
  circuit.onContent(1)
  circuit.onSuccess(2)
  circuit.onFailure(3, false)
  expect(circuit.isClosed).toBeFalse()
})

test("calls that fail together are one opening, and a call from before that succeeds makes it no shorter", () => {
  const circuit = opened()
  for (let n = 0; n < 5; n++) circuit.onFailure(100, false)
  circuit.onSuccess(200)
  const { reopensAt } = circuit
  circuit.onFailure(reopensAt, circuit.beginCall(reopensAt))
  expect(circuit.reopensAt - reopensAt).toBe(10_000)
})

test("a credential that is refused is tried after half a minute, and each time half as often, to once in ten minutes", () => {
  const circuit = new Circuit()
  let now = 0
  const lasted: number[] = []
  for (let n = 0; n < 7; n++) {
    circuit.onRefused(now, circuit.beginCall(now))
    circuit.endProbe()
    lasted.push((circuit.reopensAt - now) / 1_000)
    now = circuit.reopensAt
  }
  expect(lasted).toEqual([30, 60, 120, 240, 480, 600, 600])
})

describe("a half-open circuit", () => {
  test("lets one call through at a time, and closes when it is answered", () => {
    const circuit = opened()
    expect(circuit.allows(4_999)).toBeFalse()
    expect(circuit.allows(5_000)).toBeTrue()
    expect(circuit.beginCall(5_000)).toBeTrue()
    expect(circuit.allows(5_001)).toBeFalse()
    expect(circuit.beginCall(5_001)).toBeFalse()
    circuit.onContent(5_000)
    expect(circuit.state(5_002)).toBe("closed")
    expect(circuit.beginCall(5_003)).toBeFalse()
  })

  test("opens again for twice as long each time that the call fails, up to a minute", () => {
    const circuit = opened()
    let now = 0
    const lasted: number[] = []
    for (let n = 0; n < 7; n++) {
      lasted.push(circuit.reopensAt - now)
      now = circuit.reopensAt
      const isProbe = circuit.beginCall(now)
      circuit.onFailure(now, isProbe)
      circuit.endProbe()
    }
    expect(lasted).toEqual([5_000, 10_000, 20_000, 40_000, 60_000, 60_000, 60_000])
  })

  test("lets the next one through when the call was given up", () => {
    const circuit = opened()
    circuit.beginCall(5_000)
    circuit.endProbe()
    expect(circuit.allows(5_001)).toBeTrue()
  })

  test("an answer to a call from before says nothing of how things are now", () => {
    const circuit = new Circuit()
    circuit.onThrottled(100, 30_000, false)
    circuit.onContent(50)
    circuit.onSuccess(200)
    expect(circuit.state(200)).toBe("open")
    circuit.onContent(101)
    expect(circuit.state(200)).toBe("closed")
  })
})

test("property: no circuit is open for more than ten minutes after the last thing that happened, and closes by one answer", () => {
  const event = fc.record({
    kind: fc.constantFrom("ok", "failed", "throttled", "refused", "begins", "unprobed"),
    afterMs: fc.nat(20_000),
    retryAfterMs: fc.option(fc.nat(4_000_000), { nil: undefined }),
  })
  fc.assert(
    fc.property(fc.array(event, { maxLength: 60 }), (events) => {
      const circuit = new Circuit()
      let now = 0
      let isProbe = false
      for (const { kind, afterMs, retryAfterMs } of events) {
        now += afterMs
        if (kind === "ok") circuit.onSuccess(now)
        else if (kind === "failed") circuit.onFailure(now, isProbe)
        else if (kind === "throttled") circuit.onThrottled(now, retryAfterMs, isProbe)
        else if (kind === "refused") circuit.onRefused(now, isProbe)
        else if (kind === "begins") isProbe = circuit.beginCall(now) || isProbe
        else {
          circuit.endProbe()
          isProbe = false
        }
      }
      circuit.endProbe()
      const later = now + 600_000
      const passes = circuit.allows(later)
      circuit.beginCall(later)
      circuit.onContent(later)
      return passes && circuit.state(later) === "closed"
    }),
  )
})

describe("the budget of retries", () => {
  test("is 20 where there are few calls, and comes back with time", () => {
    const budget = new RetryBudget()
    for (let n = 0; n < 20; n++) expect(budget.take(n)).toBeTrue()
    expect(budget.refused).toBe(0)
    expect(budget.take(20)).toBeFalse()
    expect(budget.refused).toBe(1)
    expect(budget.take(9_999)).toBeFalse()
    expect(budget.take(10_000)).toBeTrue()
  })

  test("is a tenth of many calls", () => {
    const budget = new RetryBudget()
    for (let n = 0; n < 1_000; n++) budget.countCall(n)
    let taken = 0
    while (budget.take(1_000)) taken++
    expect(taken).toBe(100)
  })
})
