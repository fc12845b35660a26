/** When a backend is asked again before the first content, and when not (decisions §7). Times in milliseconds. */
import { expect, test } from "bun:test"
import { VirtualClock } from "../kernel/virtual-time.ts"
import type { End } from "../../src/gateway/attempt.ts"
import { retry } from "../../src/gateway/tool-loop.ts"
import type { TimeoutReason } from "../../src/gateway/timeouts.ts"
import { connectionFault } from "../../src/upstream/client.ts"

type Call = Parameters<typeof retry>[1]
type Hooks = Parameters<typeof retry>[2]

const failed = (retryAfterMs: number | undefined, committed = false): End => ({
  kind: "failed",
  fault: { ...connectionFault(true), retryAfterMs },
  committed,
})

interface Given {
  readonly end?: End
  /** How much of the longest back-off is drawn. */
  readonly random?: number
  /** What is left for the start, at the beginning. */
  readonly startMs?: number
  readonly reason?: TimeoutReason
  /** When the client leaves. */
  readonly leavesAt?: number
  /** `leave`: the client leaves at once. */
  readonly hooks?: (leave: () => void) => Hooks
}

/** When each try began, and how many were counted. */
async function tries({ end = failed(0), random = 0.5, startMs = 120_000, reason, leavesAt = Infinity, hooks }: Given) {
  const clock = new VirtualClock()
  const began = clock.monotonic()
  const now = () => Math.round(clock.monotonic() - began)
  let hasLeft = false
  const call = {
    ports: { clock, random: () => random },
    timeouts: {
      reason,
      get startLeftMs() {
        return startMs - now()
      },
    },
    get isClientWaiting() {
      return now() < leavesAt && !hasLeft
    },
    attempts: 1,
  }
  const at: number[] = []
  const once = async () => {
    at.push(now())
    return end
  }
  const retrying = retry(
    once,
    call as unknown as Call,
    hooks?.(() => (hasLeft = true)),
  )
  do for (let n = 0; n < 10; n++) await Promise.resolve()
  while (clock.runNext())
  expect(await retrying).toBe(end)
  return { at, attempts: call.attempts }
}

test("three times in all, after a part of a wait that doubles", async () => {
  expect(await tries({})).toEqual({ at: [0, 100, 300], attempts: 3 })
  expect(await tries({ random: 0 })).toMatchObject({ at: [0, 0, 0] })
})

test("never sooner than the backend asks, nor sooner than the wait that was drawn", async () => {
  expect(await tries({ end: failed(150) })).toMatchObject({ at: [0, 150, 350] })
})

test.each([
  ["what no other try changes", failed(undefined)],
  ["what the client has a part of", failed(0, true)],
])("once for %s", async (_, end) => {
  expect(await tries({ end })).toEqual({ at: [0], attempts: 1 })
})

test("no more where the wait is longer than what is left for the start", async () => {
  expect(await tries({ startMs: 300 })).toMatchObject({ at: [0, 100] })
  expect(await tries({ startMs: 301 })).toMatchObject({ at: [0, 100, 300] })
})

test("no more for a client that leaves, also while the next try is waited for", async () => {
  expect(await tries({ leavesAt: 0 })).toEqual({ at: [0], attempts: 1 })
  expect(await tries({ leavesAt: 50 })).toEqual({ at: [0], attempts: 1 })
  expect(await tries({ leavesAt: 100 })).toEqual({ at: [0], attempts: 1 })
  expect(await tries({ leavesAt: 101 })).toEqual({ at: [0, 100], attempts: 2 })
})

test("a client that has left takes nothing of the budget for retries", async () => {
  let taken = 0
  const hooks = () => ({ mayRetrySame: () => ++taken > 0 })
  await tries({ leavesAt: 0, hooks })
  expect(taken).toBe(0)
})

const notTheSame: Hooks = { mayRetrySame: () => false }

test("the same member only where it may be asked again", async () => {
  expect(await tries({ hooks: () => notTheSame })).toEqual({ at: [0], attempts: 1 })
})

const moves = (count: number) => (): Hooks => ({ moveToAnother: async () => count-- > 0 })

test("other members at once, each counted, and then the last one with the wait", async () => {
  expect(await tries({ hooks: moves(1) })).toEqual({ at: [0, 0, 200], attempts: 3 })
  expect(await tries({ end: failed(undefined), hooks: moves(4) })).toEqual({ at: [0, 0, 0, 0, 0], attempts: 5 })
})

test.each([
  ["the client has left", { leavesAt: 0 }],
  ["the gateway broke it off", { reason: "start" }],
  ["the client has the answer's beginning", { end: failed(0, true) }],
] as const)("no other member where %s", async (_, given) => {
  const moved: string[] = []
  const moveToAnother = async () => moved.push("moved") > 0
  expect(await tries({ ...given, hooks: () => ({ moveToAnother, ...notTheSame }) })).toEqual({ at: [0], attempts: 1 })
  expect(moved).toEqual([])
})

const leavesMeanwhile = (leave: () => void): Hooks => ({
  async moveToAnother() {
    leave()
    return true
  },
})

test("another member is not asked for a client that left while it was chosen", async () => {
  expect(await tries({ hooks: leavesMeanwhile })).toEqual({ at: [0], attempts: 1 })
})
