import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { type Share, shareOf } from "../../actors/lease.ts"
import { SlidingWindow } from "../../actors/window.ts"

const calls = fc.array(
  fc.record({
    afterMs: fc.oneof(fc.nat(900), fc.integer({ min: 59_000, max: 60_500 }), fc.nat(70_000)),
    amount: fc.nat(6),
  }),
  {
    maxLength: 80,
  },
)
const limits = fc.integer({ min: 1, max: 20 })
const shares = fc
  .record({ index: fc.nat(5), count: fc.integer({ min: 1, max: 6 }) })
  .map(({ index, count }): Share => ({ index: index % count, count }))
/** Windows begin at second 0 as well as late in a process's life. */
const starts = fc.constantFrom(0, 999, 60_000, 3_599_001.25)

/** Takes what fits, at the times given; answers what was taken, and when. */
function play(window: SlidingWindow, start: number, steps: readonly { afterMs: number; amount: number }[]) {
  const taken: { at: number; amount: number }[] = []
  let now = start
  for (const { afterMs, amount } of steps) {
    now += afterMs
    if (!window.fits(amount, now)) continue
    window.add(amount, now)
    taken.push({ at: now, amount })
  }
  return { taken, now }
}

const moves = fc.array(
  fc.record({
    kind: fc.constantFrom("add", "correct", "ask"),
    // Now and then back: nothing that was asked before may show.
    afterMs: fc.oneof(fc.nat(900), fc.integer({ min: 58_000, max: 61_000 }), fc.integer({ min: -2_000, max: -1 })),
    amount: fc.integer({ min: -6, max: 6 }),
    which: fc.nat(80),
  }),
  { maxLength: 80 },
)

/** What was counted in each second, one by one: a window without places that are used again. */
class Counted {
  readonly #seconds = new Map<number, { count: number; lastMs: number }>()
  readonly #limit: number
  readonly #share: number

  constructor(limit: number, share: number) {
    this.#limit = limit
    this.#share = share
  }
  add(amount: number, atMs: number) {
    const { count, lastMs } = this.#seconds.get(Math.floor(atMs / 1_000)) ?? { count: 0, lastMs: 0 }
    this.#seconds.set(Math.floor(atMs / 1_000), { count: count + amount, lastMs: Math.max(lastMs, atMs) })
  }
  correct(by: number, atMs: number) {
    const counted = this.#seconds.get(Math.floor(atMs / 1_000))
    if (counted !== undefined) counted.count = Math.max(0, counted.count + by)
  }
  buckets(nowMs: number) {
    return [...this.#seconds.values()].filter(({ count, lastMs }) => count > 0 && nowMs < lastMs + 60_000)
  }
  used = (nowMs: number) => this.buckets(nowMs).reduce((sum, { count }) => sum + count, 0)
  fits(amount: number, nowMs: number) {
    const used = this.used(nowMs)
    return used + amount <= this.#share || (used === 0 && amount <= this.#limit)
  }
  view(nowMs: number) {
    const ends = this.buckets(nowMs).map(({ lastMs }) => lastMs + 60_000)
    const remaining = Math.max(0, this.#share - this.used(nowMs))
    return { limit: this.#limit, remaining, resetS: Math.ceil((Math.max(nowMs, ...ends) - nowMs) / 1_000) }
  }
}

const byTime = (a: { lastMs: number }, b: { lastMs: number }) => a.lastMs - b.lastMs

describe("a sliding window", () => {
  test("has what was counted in each second, and nothing of the second that had the same place before", () => {
    // A place is used again after 61 seconds.
    const afterMs = fc.oneof(
      fc.nat(900),
      fc.integer({ min: 59_000, max: 61_500 }),
      fc.constantFrom(60_000, 61_000, 122_000),
    )
    // The clock of a shared counter may say of a call that it came long ago.
    const lateMs = fc.constantFrom(0, 0, 300, 59_600)
    const kind = fc.constantFrom("add", "correct")
    const step = fc.record({ kind, afterMs, lateMs, amount: fc.integer({ min: -6, max: 6 }), which: fc.nat(80) })
    fc.assert(
      fc.property(limits, shares, starts, fc.array(step, { maxLength: 40 }), (limit, share, start, steps) => {
        const window = new SlidingWindow(limit, share)
        const model = new Counted(limit, shareOf(limit, share))
        const times: number[] = []
        let now: number = start
        for (const { kind, afterMs, lateMs, amount, which } of steps) {
          now += afterMs
          const at = kind === "correct" ? times[which % times.length] : Math.max(0, now - lateMs)
          if (at === undefined) continue
          for (const each of [window, model]) {
            if (kind === "correct") each.correct(amount, at)
            else each.add(Math.abs(amount), at)
          }
          if (kind !== "correct") times.push(at)
          expect(window.used(now)).toBe(model.used(now))
          expect(window.fits(Math.abs(amount), now)).toBe(model.fits(Math.abs(amount), now))
          expect(window.view(now)).toEqual(model.view(now))
          expect(window.buckets(now).toSorted(byTime)).toEqual(model.buckets(now).toSorted(byTime))
        }
      }),
      { numRuns: 500 },
    )
  })

  test("has what a window has that was never asked before", () => {
    fc.assert(
      fc.property(starts, moves, (start, steps) => {
        const window = new SlidingWindow(1_000)
        const changes: ((other: SlidingWindow) => void)[] = []
        const times: number[] = []
        let now: number = start
        for (const { kind, afterMs, amount, which } of steps) {
          now = Math.max(0, now + afterMs)
          const at = kind === "add" ? now : (times[which % times.length] ?? now)
          if (kind === "add") times.push(at)
          if (kind !== "ask")
            changes.push((each) => (kind === "add" ? each.add(Math.abs(amount), at) : each.correct(amount, at)))
          if (kind !== "ask") changes.at(-1)?.(window)
          const fresh = new SlidingWindow(1_000)
          for (const change of changes) change(fresh)
          expect(window.used(now)).toBe(fresh.used(now))
        }
      }),
      { numRuns: 1_000 },
    )
  })

  test("counts a call until a whole minute is past, whatever part of a second it came in", () => {
    const window = new SlidingWindow(1)
    window.add(1, 900)
    expect(window.view(900)).toEqual({ limit: 1, remaining: 0, resetS: 60 })
    expect(window.waitS(1, 900)).toBe(60)
    for (const now of [59_999, 60_000, 60_100, 60_899]) expect(window.fits(1, now)).toBe(false)
    expect(window.waitS(1, 60_100)).toBe(1)
    expect(window.fits(1, 60_900)).toBe(true)
  })

  test("still counts the oldest second while the newest begins", () => {
    const window = new SlidingWindow(2)
    window.add(1, 900)
    window.add(1, 60_100)
    expect([window.used(60_100), window.fits(1, 60_100)]).toEqual([2, false])
    expect([window.used(60_900), window.fits(1, 60_900)]).toEqual([1, true])
  })

  test("admits never more than its limit in any 60 seconds", () => {
    fc.assert(
      fc.property(limits, starts, calls, (limit, start, steps) => {
        const { taken } = play(new SlidingWindow(limit), start, steps)
        for (const { at: from } of taken) {
          let sum = 0
          for (const { at, amount } of taken) if (at >= from && at - from < 60_000) sum += amount
          expect(sum).toBeLessThanOrEqual(limit)
        }
      }),
    )
  })

  test("tells to the second when the same call would pass", () => {
    fc.assert(
      fc.property(
        limits,
        shares,
        starts,
        calls,
        fc.integer({ min: 1, max: 20 }),
        (limit, share, start, steps, amount) => {
          const window = new SlidingWindow(limit, share)
          const { now } = play(window, start, steps)
          const waitS = window.waitS(amount, now)
          expect(waitS === undefined).toBe(amount > limit)
          if (waitS === undefined) return
          expect(waitS).toBeGreaterThanOrEqual(1)
          expect(waitS).toBeLessThanOrEqual(60)
          expect(window.fits(amount, now + waitS * 1_000)).toBe(true)
          if (!window.fits(amount, now)) expect(window.fits(amount, now + (waitS - 1) * 1_000)).toBe(false)
        },
      ),
      { numRuns: 500 },
    )
  })

  test("tells to the second when it is empty again", () => {
    fc.assert(
      fc.property(limits, starts, calls, (limit, start, steps) => {
        const window = new SlidingWindow(limit)
        const { now } = play(window, start, steps)
        const resetS = window.resetS(now)
        expect(resetS === 0).toBe(window.used(now) === 0)
        expect(window.used(now + resetS * 1_000)).toBe(0)
        if (resetS > 0) expect(window.used(now + (resetS - 1) * 1_000)).toBeGreaterThan(0)
      }),
    )
  })

  test("under another limit keeps its counts, and waits until they fit the new one", () => {
    fc.assert(
      fc.property(limits, limits, starts, calls, (limit, other, start, steps) => {
        const window = new SlidingWindow(limit)
        const { now } = play(window, start, steps)
        const changed = window.under(other)
        expect(changed.used(now)).toBe(window.used(now))
        expect(changed.remaining(now)).toBe(Math.max(0, other - window.used(now)))
        const waitS = changed.waitS(1, now) ?? 0
        expect(changed.fits(1, now + waitS * 1_000)).toBe(true)
        // The old one is not the new one's shadow.
        changed.add(1, now)
        expect(changed.used(now)).toBe(window.used(now) + 1)
      }),
    )
  })

  test("that is a share admits never more than that in any 60 seconds, but for one amount that is larger", () => {
    fc.assert(
      fc.property(limits, shares, starts, calls, (limit, share, start, steps) => {
        const { taken } = play(new SlidingWindow(limit, share), start, steps)
        for (const { at: from } of taken) {
          const inside = taken.filter(({ at }) => at >= from && at - from < 60_000).map(({ amount }) => amount)
          const sum = inside.reduce((total, amount) => total + amount, 0)
          const larger = inside.filter((amount) => amount > shareOf(limit, share))
          if (larger.length === 0) expect(sum).toBeLessThanOrEqual(shareOf(limit, share))
          else expect(sum).toBeLessThanOrEqual(limit)
        }
      }),
    )
  })

  test("that is a share admits an amount over it when it is empty, up to the limit, and says when that will be", () => {
    const window = new SlidingWindow(100, { index: 0, count: 2 })
    expect(window.fits(101, 0)).toBe(false)
    expect(window.waitS(101, 0)).toBeUndefined()
    expect(window.fits(100, 0)).toBe(true)
    window.add(1, 500)
    expect(window.fits(51, 10_500)).toBe(false)
    expect(window.waitS(51, 10_500)).toBe(50)
    expect(window.fits(51, 60_499)).toBe(false)
    expect(window.fits(51, 60_500)).toBe(true)
    expect(window.view(10_500)).toEqual({ limit: 100, remaining: 49, resetS: 50 })
    window.add(80, 60_500)
    expect(window.view(60_500)).toEqual({ limit: 100, remaining: 0, resetS: 60 })
  })

  test("whose share changes keeps its counts", () => {
    const alone = new SlidingWindow(60)
    alone.add(40, 0)
    const shared = alone.under(60, { index: 1, count: 2 })
    expect([shared.used(0), shared.remaining(0), shared.fits(1, 0)]).toEqual([40, 0, false])
    expect(shared.under(60).remaining(0)).toBe(20)
  })

  test("corrects what is still in it, never under zero, and leaves alone what has left it", () => {
    const window = new SlidingWindow(100)
    window.add(10, 500)
    window.correct(-4, 500)
    expect(window.used(60_499)).toBe(6)
    window.correct(-100, 500)
    expect(window.used(60_499)).toBe(0)
    window.add(7, 60_500)
    window.correct(50, 500)
    expect(window.used(60_500)).toBe(7)
  })
})
