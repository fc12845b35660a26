/** A window that is counted elsewhere (actors/counted-window.ts); with a Redis of its own it is in test/redis/counts.test.ts. */
import { expect, test } from "bun:test"
import { CountedWindow, type CountNews, type Taken } from "../../actors/counted-window.ts"
import { type CountAnswered, SlidingWindow, type SharedBucket, type WindowCounts } from "../../actors/window.ts"

/** A counter that answers when the test says so, and forgets what it was told of an earlier epoch. */
class Counter implements WindowCounts {
  state: WindowCounts["state"] = "exact"
  epoch = "first"
  readonly asked: {
    readonly epoch: string
    readonly told: readonly SharedBucket[]
    readonly answered: CountAnswered
  }[] = []
  told = 0

  timeOf = (atMs: number) => atMs
  take = (_: string, __: unknown, answered: CountAnswered) => answered(undefined)
  look = (_: string, __: unknown, answered: CountAnswered) => answered(undefined)
  add(_: string, told: readonly SharedBucket[], answered: CountAnswered) {
    this.asked.push({ epoch: this.epoch, told, answered })
  }
  /** The next one that was asked is answered, as of the epoch that the server has: `now`. */
  answer(now: string) {
    const asked = this.asked.shift()
    if (asked?.epoch !== now) return asked?.answered(undefined)
    this.told += asked.told.reduce((sum, { by }) => sum + by, 0)
    asked.answered({ epoch: now, atMs: 0, fits: true, used: this.told, emptyAtMs: 60_000, fitsAtMs: undefined })
  }
}

test("what was being told while the counter began anew is told to the new one, and at once", () => {
  const counts = new Counter()
  const self = (news: CountNews) => window.receive(news, 1_000)
  const window: CountedWindow = new CountedWindow(
    new SlidingWindow(10, { index: 0, count: 1 }),
    { counts, window: "key", self },
    true,
  )
  const taken: Taken[] = []
  for (let call = 0; call < 3; call++) window.take(1, 1_000, (each) => taken.push(each))
  expect(taken.map(({ fits }) => fits)).toEqual([true, true, true])
  expect(counts.asked.length).toBe(1)
  // The beat that names the new epoch is heard before the answer to what was told under the old one.
  counts.epoch = "second"
  window.tell(1_000)
  expect(counts.asked.length).toBe(1)
  while (counts.asked.length > 0) counts.answer("second")
  expect(counts.told).toBe(3)
})
