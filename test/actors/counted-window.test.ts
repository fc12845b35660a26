/** A window that is counted elsewhere (actors/counted-window.ts); with a Redis of its own it is in test/redis/counts.test.ts. */
import { describe, expect, test } from "bun:test"
import { CountedWindow, type CountNews, type Taken, type Wait } from "../../actors/counted-window.ts"
import type { Random } from "../../actors/kernel/clock.ts"
import { VirtualClock, seededRandom } from "../kernel/virtual-time.ts"
import { type Share, shareOf, whole } from "../../actors/lease.ts"
import {
  type Amount,
  type CountAnswered,
  type Counted,
  type CountState,
  SlidingWindow,
  type SharedBucket,
  type WindowCounts,
} from "../../actors/window.ts"

/** What Redis does, without its server; its clock is another one. */
class Server {
  epoch = "first"
  readonly #clock: VirtualClock
  readonly #seconds = new Map<number, { count: number; lastMs: number }>()

  constructor(clock: VirtualClock) {
    this.#clock = clock
  }
  now = (): number => this.timeOf(this.#clock.monotonic())
  timeOf = (atMs: number): number => Math.floor(1_000_000_500 + atMs)
  #live = () => [...this.#seconds.values()].filter(({ lastMs }) => this.now() < lastMs + 60_000)
  used = (): number => this.#live().reduce((sum, { count }) => sum + count, 0)

  empty(): void {
    this.epoch += " and another"
    this.#seconds.clear()
  }
  count(told: readonly SharedBucket[]): void {
    for (const { second, ms, by } of told) {
      const { count, lastMs } = this.#seconds.get(second) ?? { count: 0, lastMs: 0 }
      this.#seconds.set(second, { count: count + by, lastMs: Math.max(lastMs, second * 1_000 + ms) })
    }
  }
  take(asked: Amount, isCounted: boolean): Counted {
    const fits = this.used() + asked.amount <= asked.limit
    const timeMs = this.now()
    if (fits && isCounted) this.count([{ second: Math.floor(timeMs / 1_000), ms: timeMs % 1_000, by: asked.amount }])
    return this.counted(fits, asked)
  }
  counted(fits: boolean, { amount, limit }: Amount): Counted {
    const endsIn = (lastMs: number) => lastMs + 60_000 - this.now()
    const nowMs = this.#clock.monotonic()
    let left = this.used()
    let fitsIn = 0
    for (const { count, lastMs } of this.#live().sort((a, b) => a.lastMs - b.lastMs)) {
      if (fits || left + amount <= limit) break
      left -= count
      fitsIn = endsIn(lastMs)
    }
    return {
      epoch: this.epoch,
      atMs: nowMs,
      fits,
      used: this.used(),
      emptyAtMs: nowMs + Math.max(0, ...this.#live().map(({ lastMs }) => endsIn(lastMs))),
      fitsAtMs: amount > limit ? undefined : nowMs + fitsIn,
    }
  }
}

/** One process's way to the server. */
class Way implements WindowCounts {
  state: CountState = "exact"
  epoch: string
  asks = 0
  readonly told: (readonly SharedBucket[])[] = []
  /** How much of what is asked, and of what is answered, does not arrive. */
  lost: { readonly asks: number; readonly answers: number } = { asks: 0, answers: 0 }
  readonly #waiting = new Set<CountAnswered>()
  readonly #server: Server
  readonly #clock: VirtualClock
  readonly #random: Random | undefined

  /** Without randomness there is no way at all: it is answered at once. */
  constructor(server: Server, clock: VirtualClock, random?: Random) {
    this.#server = server
    this.#clock = clock
    this.#random = random
    this.epoch = server.epoch
  }
  timeOf = (atMs: number): number => this.#server.timeOf(atMs)

  take = (_: string, asked: Amount, answered: CountAnswered): void =>
    this.#ask(() => this.#server.take(asked, true), answered)
  look = (_: string, asked: Amount, answered: CountAnswered): void =>
    this.#ask(() => this.#server.take(asked, false), answered)
  add(_: string, told: readonly SharedBucket[], answered: CountAnswered): void {
    this.told.push(told)
    const count = () => {
      this.#server.count(told)
      return this.#server.counted(true, { amount: 0, limit: 0 })
    }
    this.#ask(count, answered)
  }

  #ask(run: () => Counted, answered: CountAnswered): void {
    this.asks++
    const { epoch, lost } = this
    const random = this.#random
    const ran = () => (epoch === this.#server.epoch ? run() : undefined)
    if (random === undefined) return answered(ran())
    this.#waiting.add(answered)
    this.#clock.after(40 * random(), () => {
      if (!this.#waiting.delete(answered)) return
      const counted = random() < lost.asks ? undefined : ran()
      answered(random() < lost.answers ? undefined : counted)
    })
  }

  /** Nothing comes of what is under way. */
  fall(): void {
    this.state = "away"
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const answered of waiting) answered(undefined)
  }
  /** What the server has now is known. */
  hear(): void {
    this.state = "telling"
    this.epoch = this.#server.epoch
  }
}

interface Options {
  readonly limit: number
  readonly share?: Share
  readonly isOnlyCounted?: boolean
  readonly clock?: VirtualClock
  readonly server?: Server
  readonly random?: Random
}

function process({ limit, share = whole, isOnlyCounted = true, ...rest }: Options) {
  const { clock = new VirtualClock() } = rest
  const { server = new Server(clock) } = rest
  const way = new Way(server, clock, rest.random)
  const self = (news: CountNews) => window.receive(news, clock.monotonic())
  const counter = { counts: way, window: "key", self }
  const window: CountedWindow = new CountedWindow(new SlidingWindow(limit, share), counter, isOnlyCounted)
  /** Undefined while nobody has answered. */
  const take = (amount = 1): Taken | undefined => {
    let told: Taken | undefined
    window.take(amount, clock.monotonic(), (taken) => (told = taken))
    return told
  }
  const look = (amount: number): Wait | undefined => {
    let told: Wait | undefined
    window.look(amount, clock.monotonic(), (wait) => (told = wait))
    return told
  }
  const correct = (by: number, atMs: number) => window.correct(by, atMs, clock.monotonic())
  const view = () => window.view(clock.monotonic())
  /** The counter is there again: what it missed is told. */
  const tell = () => {
    way.hear()
    window.tell(clock.monotonic())
  }
  return { clock, server, way, window, take, look, correct, view, tell }
}

/** Less than a minute of takes and corrections, with troubles or without. */
function play(seed: number, lost: Way["lost"], hasTroubles: boolean, givesBack: boolean) {
  const random = seededRandom(seed)
  const clock = new VirtualClock()
  const server = new Server(clock)
  const limit = 20 + Math.floor(30 * random())
  const count = 1 + Math.floor(3 * random())
  const isOnlyCounted = random() < 0.5
  let admitted = 0
  const all = Array.from({ length: count }, (_, index) => {
    const share = { index, count }
    const it = process({ limit, share, isOnlyCounted, clock, server, random })
    it.way.lost = lost
    return { ...it, share, own: 0 }
  })
  const take = (each: (typeof all)[number]) => {
    const amount = isOnlyCounted ? 1 : Math.floor(6 * random())
    each.window.take(amount, clock.monotonic(), (taken) => {
      if (!taken.fits) {
        if (!hasTroubles && isOnlyCounted) expect(server.used() + 1).toBeGreaterThan(limit)
        return
      }
      each.own += amount
      admitted += amount
      if (each.way.state === "away") expect(each.own).toBeLessThanOrEqual(shareOf(limit, each.share))
      if (isOnlyCounted) return
      const by = Math.floor(random() * 10) - (givesBack ? amount : 0)
      clock.after(2_000 * random(), () => {
        each.correct(by, taken.atMs)
        each.own += by
        admitted += by
      })
    })
    if (!hasTroubles && isOnlyCounted) expect(admitted).toBeLessThanOrEqual(limit)
  }
  const trouble = (each: (typeof all)[number]) => {
    if (random() < 0.3) server.empty()
    else each.way.fall()
  }
  /** As beats find it. */
  const beat = (each: (typeof all)[number]) => {
    if (each.way.state === "away" || each.way.epoch !== server.epoch) each.tell()
    else each.way.state = "exact"
  }
  for (let step = 0; step < 80; step++) {
    const each = all[Math.floor(count * random())]!
    if (hasTroubles && random() < 0.1) trouble(each)
    else if (hasTroubles && random() < 0.3) beat(each)
    else take(each)
    clock.advance(600 * random())
  }
  for (const each of all) each.way.lost = { asks: 0, answers: 0 }
  clock.advance(2_500)
  // Whatever was not heard is told once more.
  if (hasTroubles) for (const each of all) each.tell()
  clock.advance(1_000)
  return { seed, admitted, counted: server.used() }
}

describe("processes with one counter", () => {
  const seeds = Array.from({ length: 150 }, (_, seed) => seed)

  test("admit its limit together and no less, and it has all that they took and corrected", () => {
    for (const seed of seeds) {
      const { admitted, counted } = play(seed, { asks: 0, answers: 0 }, false, true)
      expect({ seed, counted }).toEqual({ seed, counted: admitted })
    }
  })

  test("tell it all that it missed, and nothing twice, where it counts nothing that they do not hear of", () => {
    for (const seed of seeds) {
      const { admitted, counted } = play(seed, { asks: 0.2, answers: 0 }, true, false)
      expect({ seed, counted }).toEqual({ seed, counted: admitted })
    }
  })

  test("tell it no less than they have where answers are lost, and give nothing back twice", () => {
    for (const seed of seeds) {
      const { admitted, counted } = play(seed, { asks: 0.1, answers: 0.2 }, true, true)
      expect({ seed, isLess: counted < admitted }).toEqual({ seed, isLess: false })
    }
  })
})

function fullWindow(limit: number) {
  const it = process({ limit })
  it.clock.advance(500_000)
  for (let call = 0; call < limit; call++) expect(it.take()).toMatchObject({ fits: true })
  it.clock.advance(10_000)
  expect(it.take()).toEqual({ fits: false, retryAfterS: 50 })
  return { ...it, asked: it.way.asks }
}

describe("a window of requests that is full", () => {
  test("is asked for again when there is room, and not before", () => {
    const { clock, way, take, asked } = fullWindow(3)
    clock.advance(49_500)
    expect(take()).toEqual({ fits: false, retryAfterS: 1 })
    expect(way.asks).toBe(asked)
    clock.advance(500)
    expect(take()).toEqual({ fits: true, atMs: 560_000 })
  })

  test("has room as soon as its limit is raised, or a call is taken back", () => {
    const { window, take } = fullWindow(3)
    window.limit(4, whole)
    expect(take()).toMatchObject({ fits: true })
    const other = fullWindow(3)
    other.correct(-1, 500_000)
    expect([other.take(), other.take()]).toMatchObject([{ fits: true }, { fits: false }])
  })

  test("is none of tokens: a smaller call may fit, and what another process gives back is heard of", () => {
    const { clock, server, take } = process({ limit: 10, isOnlyCounted: false })
    take(8)
    expect(take(3)).toMatchObject({ fits: false })
    expect(take(2)).toMatchObject({ fits: true })
    expect(take(3)).toMatchObject({ fits: false })
    server.count([{ second: Math.floor(server.now() / 1_000), ms: 500, by: -3 }])
    expect(take(3)).toMatchObject({ fits: true })
    expect(take(11)).toEqual({ fits: false, retryAfterS: undefined })
    clock.advance(60_000)
    expect(take(11)).toEqual({ fits: false, retryAfterS: undefined })
  })
})

const usedElsewhere = (server: Server, by: number) =>
  server.count([{ second: Math.floor(server.now() / 1_000), ms: server.now() % 1_000, by }])

describe("what is told of a window", () => {
  test("is what all processes have used while the counter is there, and is looked for after a second", () => {
    const { clock, server, window, take, look, view } = process({ limit: 10, share: { index: 0, count: 2 } })
    clock.advance(500_000)
    expect([window.isFresh(500_000), view()]).toEqual([false, { limit: 10, remaining: 10, resetS: 0 }])
    take()
    clock.advance(20_000)
    usedElsewhere(server, 6)
    expect(view()).toEqual({ limit: 10, remaining: 9, resetS: 40 })
    expect(look(3)).toBeUndefined()
    expect([window.isFresh(521_000), window.isFresh(521_001)]).toEqual([true, false])
    expect(view()).toEqual({ limit: 10, remaining: 3, resetS: 60 })
    expect(look(4)).toEqual({ retryAfterS: 40 })
    expect(look(11)).toEqual({ retryAfterS: undefined })
    // What was looked at is not counted.
    expect(server.used()).toBe(7)
    for (let call = 0; call < 3; call++) take()
    expect(view().remaining).toBe(0)
    clock.advance(40_000)
    expect(view()).toMatchObject({ resetS: 20 })
    clock.advance(20_000)
    expect([view(), window.isEmpty(580_000)]).toEqual([{ limit: 10, remaining: 10, resetS: 0 }, true])
  })

  test("is its share while the counter is away, and less where the others had used more than theirs", () => {
    const { clock, server, way, window, take, look, view } = process({ limit: 10, share: { index: 0, count: 2 } })
    clock.advance(500_000)
    usedElsewhere(server, 7)
    take()
    way.fall()
    expect([window.isFresh(900_000), view()]).toEqual([true, { limit: 10, remaining: 2, resetS: 60 }])
    expect([look(2), look(3)]).toEqual([undefined, { retryAfterS: 60 }])
    clock.advance(10_000)
    expect([take(2), take()]).toEqual([
      { fits: true, atMs: 510_000 },
      { fits: false, retryAfterS: 50 },
    ])
    expect(view().remaining).toBe(0)
    // What was said of the others is over when it said so.
    clock.advance(49_999)
    expect(view().remaining).toBe(0)
    clock.advance(1)
    expect(view()).toEqual({ limit: 10, remaining: 3, resetS: 10 })
    expect([take(4), take(3)]).toMatchObject([{ fits: false, retryAfterS: 10 }, { fits: true }])
  })

  test("has what was given back as soon as the counter has heard of it", () => {
    const { take, correct, view } = process({ limit: 10, isOnlyCounted: false })
    take(8)
    expect(view().remaining).toBe(2)
    correct(-3, 0)
    expect(view().remaining).toBe(5)
  })

  test("has nothing left, and no less, where more is used than its limit is by now", () => {
    const { server, way, window, take, view } = process({ limit: 10 })
    usedElsewhere(server, 8)
    take()
    window.limit(4, whole)
    expect(view().remaining).toBe(0)
    way.fall()
    expect(view().remaining).toBe(0)
  })

  test("has what the counter has not said yet of what is counted here, and until that leaves it", () => {
    const { clock, way, take, correct, view } = process({ limit: 10, isOnlyCounted: false })
    take(2)
    way.add = () => {}
    correct(5, 0)
    expect(view()).toEqual({ limit: 10, remaining: 3, resetS: 60 })
    clock.advance(30_000)
    way.take = (_, __, answered) => answered(undefined)
    take(1)
    expect(view()).toEqual({ limit: 10, remaining: 2, resetS: 60 })
  })

  test("is its share where the counter does not say in time", () => {
    const { way, take, look } = process({ limit: 10, share: { index: 0, count: 2 } })
    take(4)
    way.look = (_, __, answered) => answered(undefined)
    expect([look(1), look(2)]).toEqual([undefined, { retryAfterS: 60 }])
  })

  test("is never longer than a minute, though the counter's time is not quite this process's", () => {
    const { way, take, look, view } = process({ limit: 1 })
    const at = (atMs: number): Counted => ({
      epoch: way.epoch,
      atMs,
      fits: true,
      used: 1,
      emptyAtMs: 60_000,
      fitsAtMs: 0,
    })
    way.take = (_, __, answered) => answered(at(400))
    take()
    expect(view()).toEqual({ limit: 1, remaining: 0, resetS: 60 })
    way.fall()
    expect([view().resetS, look(1)]).toEqual([60, { retryAfterS: 60 }])
  })
})

const bySecond = (told: readonly SharedBucket[] | undefined) => told?.map(({ second, by }) => [second, by])

describe("what the counter does not know", () => {
  test("is told once when it is there again, by seconds, and nothing of it that has left the window", () => {
    const { clock, server, way, take, tell } = process({ limit: 1_000 })
    clock.advance(500_000)
    way.fall()
    take()
    clock.advance(600_000)
    for (let call = 0; call < 200; call++) {
      clock.advance(500)
      take()
    }
    const last = Math.floor(server.now() / 1_000)
    tell()
    tell()
    expect(way.told.map(bySecond)).toEqual([Array.from({ length: 61 }, (_, index) => [last - 60 + index, 2])])
  })

  test("is told as of the last of a second, in whatever order it was corrected", () => {
    const { clock, way, take, correct, tell } = process({ limit: 10, isOnlyCounted: false })
    clock.advance(500_000)
    way.fall()
    take(2)
    clock.advance(300)
    take(2)
    correct(1, 500_000)
    tell()
    expect(way.told).toEqual([[{ second: 1_000_500, ms: 800, by: 5 }]])
  })

  test("is not told where it has left the window, or was taken back", () => {
    const { clock, server, way, take, correct, tell } = process({ limit: 10 })
    clock.advance(500_000)
    way.fall()
    take()
    clock.advance(120_000)
    take()
    clock.advance(1_000)
    take()
    correct(-1, 621_000)
    tell()
    expect(way.told.map(bySecond)).toEqual([[[1_000_620, 1]]])
    expect(server.used()).toBe(1)
  })

  test("is told again where nobody answered, as it was", () => {
    const { clock, server, way, take, correct, tell } = process({ limit: 10, isOnlyCounted: false })
    clock.advance(500_250)
    const taken = take(4)
    const add = way.add.bind(way)
    way.add = (_, told, answered) => (way.told.push(told), answered(undefined))
    if (taken?.fits !== true) throw new Error("refused")
    correct(3, taken.atMs)
    correct(0, taken.atMs)
    way.add = add
    clock.advance(20_000)
    tell()
    const bucket = { second: 1_000_500, ms: 750, by: 3 }
    expect(way.told).toEqual([[bucket], [bucket]])
    expect(server.used()).toBe(7)
    tell()
    expect(way.told.length).toBe(2)
  })

  test("is not told again of tokens that were given back: it may have been heard, and would open the window", () => {
    const { server, way, take, correct, tell } = process({ limit: 10, isOnlyCounted: false })
    take(8)
    const add = way.add.bind(way)
    way.add = (name, told, answered) => add(name, told, () => answered(undefined))
    correct(-3, 0)
    expect(server.used()).toBe(5)
    way.add = add
    tell()
    expect(server.used()).toBe(5)
  })

  test("is what an answer of over a minute took beyond its estimate, and that counts from its end", () => {
    const { clock, server, way, take, correct } = process({ limit: 10, isOnlyCounted: false })
    clock.advance(500_000)
    take(4)
    clock.advance(59_999)
    correct(1, 500_000)
    expect(way.told).toEqual([[{ second: 1_000_500, ms: 500, by: 1 }]])
    clock.advance(1)
    correct(-1, 500_000)
    expect(server.used()).toBe(0)
    correct(1, 500_000)
    expect([server.used(), way.told.at(-1)]).toEqual([1, [{ second: 1_000_560, ms: 500, by: 1 }]])
  })

  test("is told to one that has begun anew, also where the old one had counted it and said so later", () => {
    const { clock, server, way, take, window } = process({ limit: 10 })
    const answers: CountAnswered[] = []
    const old = way.epoch
    way.take = (_, __, answered) => void answers.push(answered)
    take()
    server.empty()
    way.hear()
    window.tell(clock.monotonic())
    answers[0]!({ epoch: old, atMs: 0, fits: true, used: 1, emptyAtMs: 60_000, fitsAtMs: 0 })
    expect(server.used()).toBe(1)
  })

  test("is told to the new one, and at once, where that began while it was being told", () => {
    const { clock, server, way, take, window } = process({ limit: 10 })
    const answers: CountAnswered[] = []
    const add = way.add.bind(way)
    way.take = (_, __, answered) => answered(undefined)
    way.add = (_, __, answered) => void answers.push(answered)
    for (let call = 0; call < 3; call++) take()
    expect(answers.length).toBe(1)
    // The beat that names the new epoch is heard before the answer to what was told under the old one.
    server.empty()
    way.hear()
    window.tell(clock.monotonic())
    expect(answers.length).toBe(1)
    way.add = add
    answers[0]!(undefined)
    expect(server.used()).toBe(3)
  })
})
