import { describe, expect, test } from "bun:test"
import { systemClock, TimerWheel } from "../../actors/kernel/clock.ts"
import { VirtualClock, seededRandom } from "./virtual-time.ts"

const TICK_MS = 100

/** A wheel on a clock that counts the timers that are set and not over. */
function wheelOf() {
  const clock = new VirtualClock()
  const timers = { set: 0, armed: 0 }
  const counting = {
    running: () => clock.running(),
    after(delayMs: number, run: () => void) {
      timers.set++
      timers.armed++
      const timer = clock.after(delayMs, () => {
        timers.armed--
        run()
      })
      let cancelled = false
      return {
        cancel: () => {
          if (!cancelled) timers.armed--
          cancelled = true
          timer.cancel()
        },
      }
    },
  }
  return { clock, timers, wheel: new TimerWheel(counting, TICK_MS) }
}

describe("a timer wheel", () => {
  test("runs each deadline once, never early, and within a tick", () => {
    const { clock, wheel } = wheelOf()
    const random = seededRandom(7)
    const late: number[] = []
    for (let n = 0; n < 2_000; n++) {
      clock.advance(random() * 30)
      const due = clock.running() + random() * 20_000
      wheel.after(due - clock.running(), () => late.push(clock.running() - due))
    }
    clock.advance(21_000)
    expect(late.length).toBe(2_000)
    expect(Math.min(...late)).toBeGreaterThanOrEqual(0)
    expect(Math.max(...late)).toBeLessThanOrEqual(TICK_MS)
  })

  test("sets one timer for all of a tick, and leaves none when all are cancelled", () => {
    const { clock, timers, wheel } = wheelOf()
    let ran = 0
    const set = Array.from({ length: 1_000 }, () => wheel.after(10_000, () => ran++))
    expect(timers).toEqual({ set: 1, armed: 1 })
    for (const timer of set) timer.cancel()
    for (const timer of set) timer.cancel()
    expect(timers.armed).toBe(0)
    clock.advance(30_000)
    expect(ran).toBe(0)
    wheel.after(5_000, () => ran++)
    clock.advance(5_100)
    expect(ran).toBe(1)
  })

  test("runs the one that is left when all others are cancelled", () => {
    const { clock, wheel } = wheelOf()
    const ran: string[] = []
    const others = [1, 2].map((n) => wheel.after(5_000, () => ran.push(`other ${n}`)))
    wheel.after(5_000, () => ran.push("left"))
    for (const other of others) other.cancel()
    clock.advance(5_100)
    expect(ran).toEqual(["left"])
  })

  test("runs first what is due first, also when that was set last", () => {
    const { clock, wheel } = wheelOf()
    const ran: string[] = []
    wheel.after(9_000, () => ran.push("last"))
    wheel.after(3_000, () => ran.push("first"))
    const cancelled = wheel.after(3_500, () => ran.push("never"))
    wheel.after(4_000, () => {
      ran.push("second")
      wheel.after(2_000, () => ran.push("third"))
    })
    cancelled.cancel()
    clock.advance(20_000)
    expect(ran).toEqual(["first", "second", "third", "last"])
  })

  test("lets a deadline cancel another of the same tick", () => {
    const { clock, wheel } = wheelOf()
    const ran: string[] = []
    let other: { cancel(): void } | undefined
    wheel.after(5_000, () => {
      ran.push("one")
      other?.cancel()
    })
    other = wheel.after(5_000, () => ran.push("other"))
    clock.advance(10_000)
    expect(ran).toEqual(["one"])
  })

  test("runs what a deadline sets for the very tick that runs", () => {
    const { clock, wheel } = wheelOf()
    const ran: string[] = []
    wheel.after(5_000, () => {
      ran.push("one")
      wheel.after(0, () => ran.push("at once"))
    })
    wheel.after(5_000, () => ran.push("two"))
    clock.advance(5_200)
    expect(ran.toSorted()).toEqual(["at once", "one", "two"])
  })

  test("loses no deadline by another that throws", () => {
    const { clock, wheel } = wheelOf()
    const ran: string[] = []
    wheel.after(5_000, () => {
      throw new Error("a bug")
    })
    wheel.after(5_000, () => ran.push("same tick"))
    wheel.after(7_000, () => ran.push("later"))
    expect(() => clock.advance(10_000)).toThrow("a bug")
    clock.advance(10_000)
    expect(ran).toEqual(["same tick", "later"])
  })

  test("is what the process's own clock uses for deadlines of seconds", async () => {
    const from = systemClock.running()
    const ran = await new Promise<number>((resolve) => systemClock.after(2_000, () => resolve(systemClock.running())))
    expect(ran - from).toBeGreaterThanOrEqual(1_999)
  })
})
