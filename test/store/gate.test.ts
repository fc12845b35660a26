import { expect, test } from "bun:test"
import { Failure } from "../../src/failure/failure.ts"
import { Gate, type Pass, turns } from "../../src/store/gate.ts"

const inside = (entry: Pass | string): Pass => {
  if (typeof entry === "string") throw new Error(`refused: ${entry}`)
  return entry
}

test("the gate never holds more than its size, and lets the rest in by order of arrival", async () => {
  const gate = new Gate({ size: 2, maxWaiting: 100 })
  const order: number[] = []
  let most = 0
  await Promise.all(
    Array.from({ length: 20 }, async (_, n) => {
      using _pass = inside(await gate.enter(5000))
      order.push(n)
      most = Math.max(most, gate.inside)
      await Bun.sleep(1)
    }),
  )
  expect(most).toBe(2)
  expect(order).toEqual(Array.from({ length: 20 }, (_, n) => n))
  expect(gate.inside).toBe(0)
})

test("who waits and who is refused is counted, and who is let in at once is not", async () => {
  const gate = new Gate({ size: 1, maxWaiting: 1 })
  const first = inside(await gate.enter(5000))
  const second = gate.enter(5000)
  expect(gate.load).toEqual({ size: 1, inside: 1, waiting: 1, waits: 1, waitedMs: 0, refused: 0 })
  expect(await gate.enter(5000)).toBe("full")
  await Bun.sleep(20)
  first[Symbol.dispose]()
  inside(await second)
  expect(gate.load).toMatchObject({ inside: 1, waiting: 0, waits: 1, refused: 1 })
  expect(gate.load.waitedMs).toBeGreaterThan(10)
  expect(await gate.enter(1)).toBe("late")
  expect(gate.load).toMatchObject({ waiting: 0, waits: 2, refused: 2 })
})

test("one more than the line holds is refused at once", async () => {
  const gate = new Gate({ size: 1, maxWaiting: 1 })
  const first = inside(await gate.enter(0))
  const second = gate.enter(5000)
  expect(await gate.enter(5000)).toBe("full")
  first[Symbol.dispose]()
  inside(await second)[Symbol.dispose]()
  expect(gate.waiting).toBe(0)
})

test("who has waited too long leaves the line, and its place in it goes to nobody", async () => {
  const gate = new Gate({ size: 1, maxWaiting: 10 })
  const first = inside(await gate.enter(0))
  expect(await gate.enter(0)).toBe("late")
  const impatient = gate.enter(5)
  const patient = gate.enter(5000)
  expect(await impatient).toBe("late")
  expect(gate.waiting).toBe(1)
  first[Symbol.dispose]()
  inside(await patient)
  expect(gate.inside).toBe(1)
})

test("leaving twice makes one place, not two", async () => {
  const gate = new Gate({ size: 1, maxWaiting: 10 })
  const pass = inside(await gate.enter(0))
  pass[Symbol.dispose]()
  pass[Symbol.dispose]()
  inside(await gate.enter(0))
  expect(await gate.enter(0)).toBe("late")
})

test("a closed gate refuses those in line and those to come, and waits for those inside", async () => {
  const gate = new Gate({ size: 1, maxWaiting: 10 })
  const pass = inside(await gate.enter(0))
  const waiting = gate.enter(5000)
  let closed = false
  const closing = (async () => {
    await gate.close()
    closed = true
  })()
  expect(await waiting).toBe("closed")
  expect(await gate.enter(5000)).toBe("closed")
  expect(closed).toBe(false)
  pass[Symbol.dispose]()
  await closing
})

test("of one name so many run at once, in order of arrival; one over those that may wait is refused, and what is owed never", async () => {
  const refusal = new Failure("gateway.capacity")
  const inTurn = turns({ atOnce: 2, most: 3, refused: () => refusal })
  const order: string[] = []
  const ends: (() => void)[] = []
  const work = (what: string) => () => {
    order.push(what)
    return new Promise<string>((resolve) => ends.push(() => resolve(what)))
  }
  const [a, b, c] = ["a", "b", "c"].map((what) => inTurn("one", work(what)))
  const other = inTurn("another", work("other"))
  expect(await inTurn("one", work("too many"))).toBe(refusal)
  const owed = inTurn("one", work("owed"), true)
  expect(order).toEqual(["a", "b", "other"])
  for (const answer of [a, b, other, c, owed]) {
    ends.shift()?.()
    await answer
  }
  expect(order).toEqual(["a", "b", "other", "c", "owed"])
})

test("whoever has waited for too long is refused, what is owed is not, and the place goes to who still waits", async () => {
  const refusal = new Failure("gateway.capacity")
  const inTurn = turns({ atOnce: 1, most: Infinity, waitMs: 100, refused: () => refusal })
  const holding = Promise.withResolvers<string>()
  const held = inTurn("one", () => holding.promise)
  const begun: string[] = []
  const work = (what: string) => async () => {
    begun.push(what)
    return what
  }
  const late = inTurn("one", work("late"))
  const owed = inTurn("one", work("owed"), true)
  expect(await late).toBe(refusal)
  const inTime = inTurn("one", work("in time"))
  holding.resolve("held")
  expect(await Promise.all([held, owed, inTime])).toEqual(["held", "owed", "in time"])
  expect(begun).toEqual(["owed", "in time"])
  // The line is as new: a place is free at once.
  expect(await inTurn("one", work("next"))).toBe("next")
})
