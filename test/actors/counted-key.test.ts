/** A key whose windows are counted elsewhere: what it does while an answer is on its way. */
import { expect, test } from "bun:test"
import type { CountReply, KeyView, ReserveReply } from "../../actors/key-record.ts"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { Key } from "../../actors/key.ts"
import { whole } from "../../actors/lease.ts"
import { micro, zero } from "../../actors/money/micro.ts"
import type { Amount, CountAnswered, Counted, CountState, SharedBucket, WindowCounts } from "../../actors/window.ts"
import { budget, key, plain, startsOf } from "./key-harness.ts"

/** A counter that answers a look at once, and what is taken when it is told to. */
class Counter implements WindowCounts {
  state: CountState = "exact"
  epoch = "one"
  readonly asked: { readonly window: string; readonly asked: Amount; readonly answered: CountAnswered }[] = []
  readonly told: { readonly window: string; readonly buckets: readonly SharedBucket[] }[] = []

  take(window: string, asked: Amount, answered: CountAnswered) {
    this.asked.push({ window, asked, answered })
  }
  look(_: string, __: Amount, answered: CountAnswered) {
    answered({ epoch: this.epoch, atMs: 0, fits: true, used: 0, emptyAtMs: 0, fitsAtMs: 0 })
  }
  add(window: string, buckets: readonly SharedBucket[]) {
    this.told.push({ window, buckets })
  }
  timeOf = (atMs: number) => 1_000_000 + atMs

  /** The oldest ask, as having fitted or not. */
  answer(said: Partial<Counted> | "nothing" = {}) {
    const { asked, answered } = this.asked.shift()!
    const most = { epoch: this.epoch, atMs: 0, fits: true, used: asked.amount, emptyAtMs: 60_000, fitsAtMs: 30_000 }
    answered(said === "nothing" ? undefined : { ...most, ...said })
  }
}

function counted(record: Parameters<typeof key>[0]) {
  const counts = new Counter()
  const it = key(record, { counts })
  const counting = () => {
    const replies: CountReply[] = []
    const call = { counted: true, secret: "", origin: { address: "" } }
    it.send({ type: "count", call, reply: (reply) => void replies.push(reply) })
    return replies
  }
  const reserving = (requestId: string, tokens: number) => {
    const replies: ReserveReply[] = []
    const reservation = { requestId, tokens, least: micro(10n), worst: micro(20n) }
    it.send({ type: "reserve", reservation, reply: (reply) => void replies.push(reply) })
    return replies
  }
  return { ...it, counts, counting, reserving }
}

test("it asks for one request, answers when it hears, and is there for others meanwhile", () => {
  const { counts, counting, settle, usage } = counted({ requestsPerMinute: 10, ...budget(1_000n, "daily") })
  const [first, second] = [counting(), counting()]
  expect(counts.asked.map(({ window, asked }) => [window, asked])).toEqual([
    ["key:requests", { amount: 1, limit: 10 }],
    ["key:requests", { amount: 1, limit: 10 }],
  ])
  settle("before", 5n)
  expect(usage()).toBe(micro(5n))
  expect([first, second]).toEqual([[], []])
  counts.answer()
  expect(first).toMatchObject([{ kind: "active" }])
  expect(second).toEqual([])
  counts.answer({ fits: false, used: 10 })
  expect(second).toMatchObject([{ kind: "requests-exceeded", retryAfterS: 30, view: { requests: { remaining: 0 } } }])
})

test("a key that was revoked while its window was asked is refused", () => {
  const { counts, counting, change } = counted({ requestsPerMinute: 10 })
  const replies = counting()
  change({ revoked: true })
  counts.answer()
  expect(replies).toMatchObject([{ kind: "revoked" }])
})

test("a key that was removed while its window was asked is unknown", () => {
  const { counts, counting, send } = counted({ requestsPerMinute: 10 })
  const replies = counting()
  send({ type: "loaded", loaded: undefined })
  counts.answer()
  expect(replies).toEqual([{ kind: "unknown" }])
})

test("a full window of requests is not asked again before there is room, and one of tokens is: a correction may make it", () => {
  const { counts, counting, reserving } = counted({ requestsPerMinute: 10, tokensPerMinute: 100 })
  counting()
  counts.answer({ fits: false, used: 10 })
  expect(counting()).toMatchObject([{ kind: "requests-exceeded", retryAfterS: 30 }])
  expect(counts.asked.length).toBe(0)
  reserving("a", 90)
  counts.answer({ fits: false })
  expect(reserving("b", 90)).toEqual([])
  counts.answer()
})

test("what is told of it waits until both windows are known, where that is longer ago than a second", () => {
  const { clock, counts, counting, send } = counted({ requestsPerMinute: 10, tokensPerMinute: 100 })
  const looks: CountAnswered[] = []
  counts.look = (_, __, answered) => void looks.push(answered)
  const told: KeyView[] = []
  const viewing = () => send({ type: "view", reply: (view) => told.push(view) })
  const said = { epoch: "one", atMs: 0, fits: true, emptyAtMs: 60_000, fitsAtMs: 0 }
  viewing()
  looks.shift()?.({ ...said, used: 4 })
  expect([told.length, looks.length]).toEqual([0, 1])
  looks.shift()?.({ ...said, used: 70 })
  expect(told).toMatchObject([{ requests: { remaining: 6 }, tokens: { remaining: 30 } }])
  viewing()
  expect([told.length, looks.length]).toEqual([2, 0])
  clock.advance(1_001)
  counting()
  counts.answer({ used: 5 })
  viewing()
  expect([told.length, looks.length]).toEqual([2, 1])
})

test("a call that is reserved for twice is a bug, also while its tokens are asked for", () => {
  const { reserving } = counted({ tokensPerMinute: 100 })
  reserving("a", 30)
  expect(() => reserving("a", 30)).toThrow("reserved twice")
})

test("money is held when the tokens are there, and not before", () => {
  const { counts, reserving, usage } = counted({ tokensPerMinute: 100, ...budget(1_000n, "daily") })
  const replies = reserving("a", 30)
  expect([replies.length, usage()]).toEqual([0, micro(0n)])
  counts.answer()
  expect(replies).toMatchObject([{ kind: "reserved", hold: micro(20n) }])
  expect(usage()).toBe(micro(20n))
  const refused = reserving("b", 90)
  counts.answer({ fits: false, fitsAtMs: undefined })
  expect(refused).toEqual([{ kind: "tokens-exceeded", retryAfterS: undefined }])
  expect(usage()).toBe(micro(20n))
})

test("a call that ended while its tokens were asked for gives them back, and holds nothing", () => {
  const { counts, behaviour, reserving, release, usage } = counted({ tokensPerMinute: 100, ...budget(1_000n, "daily") })
  const replies = reserving("a", 30)
  expect(behaviour.idle()).toBe(false)
  release("a")
  counts.answer({ atMs: 500 })
  expect(replies).toEqual([{ kind: "unavailable" }])
  expect(usage()).toBe(micro(0n))
  // In the second in which it was counted.
  expect(counts.told).toEqual([{ window: "key:tokens", buckets: [{ second: 1_000, ms: 500, by: -30 }] }])
  // One that would have been refused has none to give back.
  reserving("b", 30)
  release("b")
  counts.answer({ fits: false })
  expect(counts.told.length).toBe(1)
})

test("what an answer that ran for over a minute took beyond its reservation is told of the second in which it ended", () => {
  const { clock, counts, reserving, settle } = counted({ tokensPerMinute: 100 })
  const reserved = reserving("a", 30)
  counts.answer()
  clock.advance(90_500)
  settle("a", 0n, startsOf(reserved[0]!), 70)
  expect(counts.told).toEqual([{ window: "key:tokens", buckets: [{ second: 1_090, ms: 500, by: 40 }] }])
})

test("without an answer it goes by its share, and tells it when the counter has begun anew", () => {
  const { counts, counting, reserving, send } = counted({ requestsPerMinute: 1, tokensPerMinute: 100 })
  const [first, second] = [counting(), counting()]
  counts.state = "away"
  counts.answer("nothing")
  counts.answer("nothing")
  expect([first, second]).toMatchObject([[{ kind: "active" }], [{ kind: "requests-exceeded" }]])
  reserving("a", 30)
  expect(counts.told).toEqual([])
  Object.assign(counts, { state: "telling", epoch: "two" })
  send({ type: "tell" })
  expect(counts.told).toEqual([
    { window: "key:requests", buckets: [{ second: 1_000, ms: 0, by: 1 }] },
    { window: "key:tokens", buckets: [{ second: 1_000, ms: 0, by: 30 }] },
  ])
})

test("what an actor that crashed had asked comes to nothing in the one after it: nobody would settle what is held for it", () => {
  const clock = new VirtualClock()
  const counts = new Counter()
  const starts = { daily: 0, monthly: 0, total: 0 }
  const record = { ...plain, tokensPerMinute: 100, ...budget(1_000n, "total") }
  let growths = 0
  const start = (isRestarted: boolean): Key =>
    new Key(
      {
        clock,
        self: (command) => latest.receive(command),
        load: () => {},
        counts,
        driverOf: () => ({ grow: () => void growths++, giveBack: () => {} }),
      },
      { record, starts, spent: { daily: zero, monthly: zero, total: zero } },
      whole,
      isRestarted,
    )
  let latest = start(false)
  const replies: ReserveReply[] = []
  const reservation = { requestId: "a", tokens: 30, least: micro(10n), worst: micro(20n) }
  latest.receive({ type: "reserve", reservation, reply: (reply) => void replies.push(reply) })
  latest = start(true)
  counts.answer()
  expect([replies, growths]).toEqual([[], 0])
})
