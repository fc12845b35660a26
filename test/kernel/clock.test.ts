import { describe, expect, test } from "bun:test"
import { afterRunning, RunningTime, systemClock, type Timer } from "../../actors/kernel/clock.ts"
import { VirtualClock } from "./virtual-time.ts"

test("virtual timers run in the order in which they fall due, then in which they were set, and not when cancelled", () => {
  const clock = new VirtualClock()
  const ran: string[] = []
  clock.after(20, () => ran.push(`late at ${clock.monotonic()}`))
  clock.after(10, () => ran.push("first"))
  clock.after(10, () => {
    ran.push("second")
    clock.after(5, () => ran.push(`set on the way at ${clock.monotonic()}`))
  })
  clock.after(10, () => ran.push("never")).cancel()
  clock.advance(20)
  expect(ran).toEqual(["first", "second", "set on the way at 15", "late at 20"])
})

test("what is left of a time by subtraction goes by, however little it is", () => {
  const clock = new VirtualClock()
  clock.advance(15_815.5536)
  const began = clock.running()
  clock.after(7.4e-13, () => {})
  clock.runNext()
  expect(clock.running()).toBeGreaterThan(began)
  expect(clock.running()).toBeLessThan(began + 1)
})

test("advancing past a cancelled timer runs nothing that is not due yet", () => {
  const clock = new VirtualClock()
  const ran: number[] = []
  clock.after(10, () => ran.push(10)).cancel()
  clock.after(50, () => ran.push(50))
  clock.advance(20)
  expect(ran).toEqual([])
  expect(clock.monotonic()).toBe(20)
})

test("a wall clock that is set back leaves elapsed time alone", () => {
  const clock = new VirtualClock(1_000_000)
  clock.advance(500)
  clock.shiftWall(-3_600_000)
  expect([clock.now(), clock.monotonic()]).toEqual([1_000_500 - 3_600_000, 500])
})

test("the system's timer of a moment that is past runs soon, and nothing complains of it", async () => {
  const warnings: string[] = []
  const hear = (warning: Error) => warnings.push(warning.name)
  process.on("warning", hear)
  await new Promise<void>((resolve) => void systemClock.wait(-5, resolve))
  await new Promise<void>((resolve) => void systemClock.after(-5, resolve))
  await Bun.sleep(1)
  process.off("warning", hear)
  expect(warnings).toEqual([])
})

test("running time goes with the clock while it is looked at, and a standstill of any length is two ticks of it", () => {
  const time = new RunningTime(1_000)
  expect([1_000, 1_030, 1_100, 1_101, 90_000].map((at) => time.at(at))).toEqual([0, 30, 100, 100, 100])
  time.tick(1_050)
  time.tick(1_101)
  expect([time.at(1_131), time.lost]).toEqual([131, 0])
  time.tick(11_101)
  expect([time.at(11_101), time.at(11_121), time.lost]).toEqual([201, 221, 9_900])
  time.tick(12_101)
  expect([time.at(12_101), time.lost]).toEqual([301, 10_800])
})

/** A machine whose timers come as late as the test says, and that has stood still for as long as it says. */
function deadline(delayMs: number) {
  let elapsed = 0
  let stood = 0
  let ran = 0
  const waits: { readonly at: number; readonly run: () => void; isCancelled: boolean }[] = []
  const machine = {
    monotonic: () => elapsed,
    running: () => elapsed - stood,
    wait: (ms: number, run: () => void): Timer => {
      const wait = { at: elapsed + ms, run, isCancelled: false }
      waits.push(wait)
      return { cancel: () => void (wait.isCancelled = true) }
    },
  }
  const timer = afterRunning(machine, delayMs, () => ran++)
  /** The next timer comes so late; true where the deadline is over then. */
  const comes = (lateMs: number, stoodMs = 0) => {
    const next = waits.shift()
    if (next === undefined || next.isCancelled) return false
    elapsed = next.at + lateMs
    stood += stoodMs
    next.run()
    return ran === 1
  }
  return { timer, comes, elapsed: () => elapsed, left: () => waits.length }
}

describe("a deadline", () => {
  test("is over when its time has been run, and not while the process stood still", () => {
    expect(deadline(500).comes(0)).toBe(true)
    const { comes, elapsed, left } = deadline(500)
    expect(comes(0, 400)).toBe(false)
    expect(comes(0)).toBe(true)
    expect([elapsed(), left()]).toEqual([900, 0])
    // Less than a millisecond that is left is not waited for.
    expect(deadline(500).comes(0, 1)).toBe(true)
    expect(deadline(500).comes(0, 2)).toBe(false)
  })

  test("that comes late lets I/O have its turn first, and is put off three times at the most", () => {
    expect(deadline(500).comes(20)).toBe(true)
    const once = deadline(500)
    expect([once.comes(21), once.comes(0), once.elapsed()]).toEqual([false, true, 526])
    const stood = deadline(500)
    expect([stood.comes(60_000, 60_000), stood.comes(0)]).toEqual([false, true])
    const always = deadline(500)
    expect([1, 2, 3, 4].map(() => always.comes(100))).toEqual([false, false, false, true])
  })

  test("is cancelled also while it is put off", () => {
    const { timer, comes } = deadline(500)
    expect(comes(100)).toBe(false)
    timer.cancel()
    expect(comes(0)).toBe(false)
  })
})
