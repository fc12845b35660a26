/** How much is kept of answers that may be asked for again, and for how long. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { type ReplayEntry, ReplayMemory } from "../../src/gateway/replay-memory.ts"

const LIMIT = 800_000
/** Of one account. */
const SHARE = LIMIT / 8

function world() {
  const clock = new VirtualClock()
  const kept = new ReplayMemory(clock, LIMIT, 10 * 60_000)
  const forgotten: string[] = []
  const answer = (name: string, accountId: string, bytes: number): ReplayEntry | undefined => {
    if (!kept.begin({ accountId })) return undefined
    const one: ReplayEntry = {
      accountId,
      retained: undefined,
      forget() {
        forgotten.push(name)
        kept.reserve(one, -bytes)
        kept.release(one)
      },
    }
    if (!kept.reserve(one, bytes)) {
      kept.release(one)
      return undefined
    }
    return one
  }
  return { clock, kept, forgotten, answer }
}

test("an account that needs more than its share loses its own oldest answers, and nobody else's", () => {
  const { kept, forgotten, answer } = world()
  kept.retain(answer("other", "acc_other", 1_000)!)
  for (let n = 0; n < 10; n++) kept.retain(answer(`mine ${n}`, "acc_mine", 20_000)!)
  expect(forgotten).toEqual(["mine 0", "mine 1", "mine 2", "mine 3", "mine 4", "mine 5"])
  expect(kept.bytes).toBeLessThanOrEqual(SHARE + 4_000)
})

test("what is under way is not taken from: who finds no room is not kept", () => {
  const { kept, forgotten, answer } = world()
  const held = [1, 2, 3, 4].map((n) => answer(`${n}`, "acc_mine", 20_000))
  expect(held).not.toContain(undefined)
  expect(answer("5", "acc_mine", 20_000)).toBeUndefined()
  expect(forgotten).toEqual([])
  expect(kept.bytes).toBe(4 * (20_000 + 2_048))
})

test("where all that there is is under way, at other accounts, who comes finds no room, and nothing is counted", () => {
  const { kept, forgotten, answer } = world()
  for (let account = 0; account < 8; account++)
    expect(answer(`${account}`, `acc_${account}`, SHARE - 2_048)).not.toBeUndefined()
  expect(kept.bytes).toBe(LIMIT)
  expect(answer("late", "acc_late", 1_000)).toBeUndefined()
  expect(kept.bytes).toBe(LIMIT)
  expect(forgotten).toEqual([])
})

test("all accounts together keep no more than there is room for, and the largest gives way", () => {
  const { kept, forgotten, answer } = world()
  for (let account = 0; account < 30; account++) kept.retain(answer(`${account}`, `acc_${account}`, 60_000 + account)!)
  expect(kept.bytes).toBeLessThanOrEqual(LIMIT)
  expect(forgotten.length).toBe(30 - Math.floor(LIMIT / 62_100))
  expect(forgotten).not.toContain("29")
})

test("where all is full the account that keeps most of what has ended gives way, whenever it came", () => {
  const { kept, forgotten, answer } = world()
  answer("under way", "acc_busy", 97_000)
  for (let account = 0; account < 10; account++) {
    const isLarge = account === 4
    kept.retain(answer(isLarge ? "large" : `${account}`, `acc_${account}`, isLarge ? 90_000 : 60_000)!)
  }
  expect(forgotten).toEqual([])
  kept.retain(answer("late", "acc_late", 60_000)!)
  expect(forgotten).toEqual(["large"])
})

test("whichever are forgotten before their time, the oldest of an account goes first, and each expires in its turn", () => {
  const step = fc.oneof(
    fc.record({ retain: fc.constantFrom("acc_1", "acc_2"), bytes: fc.integer({ min: 0, max: 40_000 }) }),
    fc.record({ forget: fc.nat(30) }),
    fc.record({ minutes: fc.integer({ min: 1, max: 4 }) }),
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const { clock, kept, forgotten, answer } = world()
      let living: { readonly name: string; readonly entry: ReplayEntry; readonly untilMs: number }[] = []
      steps.forEach((each, at) => {
        const told = forgotten.length
        if ("retain" in each) {
          const entry = answer(`${at}`, each.retain, each.bytes)
          if (entry !== undefined) {
            kept.retain(entry)
            living.push({ name: `${at}`, entry, untilMs: clock.monotonic() + 10 * 60_000 })
          }
        } else if ("forget" in each) living[each.forget % (living.length || 1)]?.entry.forget()
        else clock.advance(each.minutes * 60_000)
        const gone = forgotten.slice(told)
        if (!("forget" in each)) {
          const due = living.filter(({ entry, untilMs }) =>
            "retain" in each ? entry.accountId === each.retain : untilMs <= clock.monotonic(),
          )
          expect(gone).toEqual(due.slice(0, gone.length).map(({ name }) => name))
          if ("minutes" in each) expect(gone).toHaveLength(due.length)
        }
        living = living.filter(({ name }) => !gone.includes(name))
        for (const { entry } of living) expect(entry.retained).toBeDefined()
      })
      const left = living.map(({ name }) => name)
      const told = forgotten.length
      clock.advance(10 * 60_000)
      expect(forgotten.slice(told)).toEqual(left)
      expect(kept.bytes).toBe(0)
    }),
  )
})

test("after ten minutes nothing is left, whether or not anybody asks", () => {
  const { clock, kept, forgotten, answer } = world()
  kept.retain(answer("one", "acc_mine", 1_000)!)
  clock.advance(5 * 60_000)
  kept.retain(answer("two", "acc_mine", 1_000)!)
  clock.advance(5 * 60_000)
  expect(forgotten).toEqual(["one"])
  clock.advance(5 * 60_000)
  expect([forgotten, kept.bytes]).toEqual([["one", "two"], 0])
  kept.retain(answer("three", "acc_mine", 1_000)!)
  clock.advance(10 * 60_000)
  expect([forgotten, kept.bytes]).toEqual([["one", "two", "three"], 0])
})
