import { expect, test } from "bun:test"
import { systemClock, VirtualClock } from "../../actors/kernel/clock.ts"

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
