import { describe, expect, test } from "bun:test"
import { VirtualClock } from "../../actors/kernel/clock.ts"
import { type CountReply, Key, type KeyCommand, type KeyView, type ReserveReply } from "../../actors/key.ts"
import type { KeyRecord, LoadedKey } from "../../actors/key-record.ts"
import { type Micro, micro, zero } from "../../actors/money/micro.ts"
import type { Budget } from "../../actors/budget.ts"
import type { LeaseNews } from "../../actors/lease.ts"
import { calendarAt, carriedOver, type RunningPeriods, type SpendingPeriod } from "../../actors/period.ts"
import { whole } from "../../actors/share.ts"

const plain: KeyRecord = {
  keyId: "key",
  accountId: "acc",
  revoked: false,
  accountDeleted: false,
  accountFrozen: false,
  timeZone: "Asia/Jakarta",
  requestsPerMinute: undefined,
  tokensPerMinute: undefined,
  budget: undefined,
  fallback: "never_dearer",
}
const budget = (limit: bigint, period: SpendingPeriod) => ({ budget: { limit: micro(limit), period } })

interface Row {
  granted: bigint
  returned: bigint
  settled: bigint
  version: number
  elsewhere: bigint
}

/** What Postgres has of the budgets: all that is free is leased to who asks. */
class Leases {
  readonly #rows = new Map<string, Row>()
  limit = 0n
  spent = 0n
  #row(budget: Budget) {
    const name = `${budget.period} ${budget.start}`
    const row = this.#rows.get(name) ?? { granted: 0n, returned: 0n, settled: 0n, version: 0, elsewhere: this.spent }
    this.#rows.set(name, row)
    return row
  }
  grow(budget: Budget): LeaseNews {
    const row = this.#row(budget)
    const free = this.limit - row.elsewhere - row.granted + row.returned
    if (free > 0n) row.granted += free
    row.version++
    return { type: "grown", lease: this.#lease(row), more: false, elsewhere: micro(row.elsewhere) }
  }
  giveBack(budget: Budget, returned: bigint): LeaseNews {
    const row = this.#row(budget)
    row.returned = returned
    row.version++
    return { type: "returned", lease: this.#lease(row) }
  }
  #lease = ({ granted, returned, settled, version }: Row) => ({
    granted: micro(granted),
    returned: micro(returned),
    settled: micro(settled),
    version,
  })
}

/** A key on a wall clock that starts at `at` (ISO 8601). */
function key(record: Partial<KeyRecord>, { at = "2026-03-10T12:00:00Z", spent = 0n, share = whole } = {}) {
  const clock = new VirtualClock(Date.parse(at))
  const leases = new Leases()
  leases.spent = spent
  let loads = 0
  const pending: KeyCommand[] = []
  /** What a turn sent comes after it. */
  const send = (command: KeyCommand) => {
    behaviour.receive(command)
    for (let next = pending.shift(); next !== undefined; next = pending.shift()) behaviour.receive(next)
  }
  function answer<T>(make: (reply: (value: T) => void) => KeyCommand): T {
    const values: T[] = []
    send(make((value) => void values.push(value)))
    return values[0]!
  }
  const loaded = (changed: Partial<KeyRecord>, so = 0n): LoadedKey => {
    const whole = { ...plain, ...record, ...changed }
    leases.limit = whole.budget?.limit ?? 0n
    return {
      record: whole,
      starts: calendarAt(clock.now(), whole.timeZone, whole.running).starts,
      spent: { daily: micro(so), monthly: micro(so), total: micro(so) },
    }
  }
  const behaviour: Key = new Key(
    {
      clock,
      self: (command) => send(command),
      load: () => loads++,
      driverOf: (budget) => ({
        grow: () => void pending.push({ type: "budget", budget, news: leases.grow(budget) }),
        giveBack: (returned) => void pending.push({ type: "budget", budget, news: leases.giveBack(budget, returned) }),
      }),
    },
    loaded({}, spent),
    share,
  )
  const view = () => answer<KeyView>((reply) => ({ type: "view", reply }))
  return {
    clock,
    behaviour,
    send,
    view,
    loads: () => loads,
    count: (counted = true) => answer<CountReply>((reply) => ({ type: "count", counted, reply })),
    reserve: (requestId: string, least: bigint, worst = least, tokens = 0) =>
      answer<ReserveReply>((reply) => ({
        type: "reserve",
        reservation: { requestId, tokens, least: micro(least), worst: micro(worst) },
        reply,
      })),
    settle: (requestId: string, actual: bigint, starts = calendarAt(clock.now(), plain.timeZone).starts, tokens = 0) =>
      answer<Micro>((reply) => ({
        type: "settle",
        usage: { requestId, tokens, actual: micro(actual), starts },
        reply,
      })),
    release: (requestId: string) => send({ type: "release", requestId }),
    trim: (requestId: string, hold: bigint) => send({ type: "trim", requestId, hold: micro(hold) }),
    change: (changed: Partial<KeyRecord>, so = 0n) => {
      leases.spent = so
      send({ type: "changed" })
      send({ type: "loaded", loaded: loaded(changed, so) })
    },
    usage: () => view().budget?.usage,
    moveTo: (iso: string) => {
      leases.spent = 0n
      clock.advance(Date.parse(iso) - clock.now())
    },
  }
}

/** What runs in Jakarta, or in `from`, as a change of the zone leaves it. */
const movedTo = (to: string, now: number, from = plain.timeZone, running: RunningPeriods = {}): RunningPeriods => ({
  daily: carriedOver(now, "daily", from, to, running.daily),
  monthly: carriedOver(now, "monthly", from, to, running.monthly),
})
const period = (start: string, ownEnd: string, end: string) => ({
  start: Date.parse(start),
  ownEnd: Date.parse(ownEnd),
  end: Date.parse(end),
})

const startsOf = (reply: ReserveReply) => (reply.kind === "reserved" ? reply.starts : undefined)!

const withSecret = (behaviour: Key, secret: string): CountReply => {
  let told: CountReply = { kind: "unknown" }
  behaviour.receive({ type: "count", counted: true, secret, reply: (value) => (told = value) })
  return told
}

describe("a secret that was replaced", () => {
  test("works until its time, then is refused and uses up no window, without anything being read again", () => {
    const at = "2026-03-10T12:00:00Z"
    const secretEnds = { old: Date.parse(at) + 10_000 }
    const { behaviour, clock, loads, view } = key({ requestsPerMinute: 3, secretEnds }, { at })
    expect(withSecret(behaviour, "old").kind).toBe("active")
    clock.advance(9_999)
    expect(withSecret(behaviour, "old").kind).toBe("active")
    clock.advance(1)
    for (let guess = 0; guess < 5; guess++) expect(withSecret(behaviour, "old")).toEqual({ kind: "ended" })
    expect(withSecret(behaviour, "new").kind).toBe("active")
    expect(view()).toMatchObject({ requests: { remaining: 0 } })
    expect(withSecret(behaviour, "new").kind).toBe("requests-exceeded")
    expect(withSecret(behaviour, "old")).toEqual({ kind: "ended" })
    expect(loads()).toBe(0)
  })

  test("names the key's actor where it has none of its own", () => {
    const { behaviour } = key({ movedTo: "first" })
    expect(withSecret(behaviour, "second")).toEqual({ kind: "moved", to: "first" })
    expect(behaviour.idle()).toBe(true)
  })
})

describe("a key's calls", () => {
  test("are counted up to its requests per minute; one refused is not counted, a revoked key's is", () => {
    const { clock, count, change, view } = key({ requestsPerMinute: 2 })
    expect(count().kind).toBe("active")
    expect(view()).toMatchObject({ requests: { limit: 2, remaining: 1, resetS: 60 } })
    clock.advance(10_000)
    change({ revoked: true })
    expect(count()).toMatchObject({ kind: "revoked", view: { requests: { remaining: 0 } } })
    for (let refused = 0; refused < 5; refused++)
      expect(count()).toMatchObject({
        kind: "requests-exceeded",
        retryAfterS: 50,
        view: { requests: { remaining: 0 } },
      })
    clock.advance(50_000)
    change({ revoked: false, accountDeleted: true })
    expect(count()).toMatchObject({ kind: "account-deleted" })
    change({ accountDeleted: false, accountFrozen: true })
    expect(count(false)).toMatchObject({ kind: "account-frozen" })
  })

  test("that are free of the window are looked at and not counted", () => {
    const { count } = key({ requestsPerMinute: 1 })
    for (let free = 0; free < 3; free++) expect(count(false).kind).toBe("active")
    expect(count().kind).toBe("active")
    expect(count(false).kind).toBe("active")
    expect(count().kind).toBe("requests-exceeded")
  })
})

describe("a key's tokens", () => {
  test("are taken at admission, given back by a release, and corrected at settlement where they were counted", () => {
    const { clock, reserve, release, settle, view } = key({ tokensPerMinute: 100 })
    reserve("a", 0n, 0n, 60)
    expect(reserve("b", 0n, 0n, 50)).toEqual({ kind: "tokens-exceeded", retryAfterS: 60 })
    expect(view().tokens).toEqual({ limit: 100, remaining: 40, resetS: 60 })
    release("a")
    expect(view().tokens?.remaining).toBe(100)
    const starts = startsOf(reserve("c", 0n, 0n, 20))
    clock.advance(30_000)
    settle("c", 0n, starts, 90)
    expect(view().tokens).toEqual({ limit: 100, remaining: 10, resetS: 30 })
  })

  test("that a call alone has too many of have no wait that helps", () => {
    const { reserve } = key({ tokensPerMinute: 100 })
    expect(reserve("a", 0n, 0n, 101)).toEqual({ kind: "tokens-exceeded", retryAfterS: undefined })
  })
})

describe("a key's budget", () => {
  test("is held, trimmed to what the account held, spent and released", () => {
    const { reserve, trim, settle, release, usage } = key(budget(1_000n, "total"), { spent: 100n })
    expect(reserve("a", 10n, 300n)).toMatchObject({ kind: "reserved", hold: micro(300n) })
    expect(usage()).toBe(micro(400n))
    trim("a", 120n)
    expect(usage()).toBe(micro(220n))
    // A trim never raises a hold.
    trim("a", 500n)
    expect(usage()).toBe(micro(220n))
    expect(settle("a", 50n)).toBe(micro(50n))
    expect(usage()).toBe(micro(150n))
    reserve("b", 10n)
    release("b")
    release("b")
    expect(usage()).toBe(micro(150n))
  })

  test("caps a charge at the hold and what is left, as the balance does", () => {
    const { reserve, settle, view } = key(budget(1_000n, "total"))
    reserve("a", 100n)
    reserve("b", 100n)
    expect(settle("a", 5_000n)).toBe(micro(900n))
    expect(settle("b", 5_000n)).toBe(micro(100n))
    expect(view().budget).toMatchObject({ usage: micro(1_000n), remaining: zero })
  })

  test("still pays for a hold after its limit was lowered under it", () => {
    const { reserve, settle, change, reserve: again } = key(budget(1_000n, "total"))
    reserve("a", 400n)
    change(budget(100n, "total"))
    expect(again("b", 1n)).toMatchObject({ kind: "budget-exceeded", retryAfterS: undefined })
    expect(settle("a", 400n)).toBe(micro(400n))
  })

  test("of a day in Jakarta rolls over at 17:00 UTC, and says to the second when", () => {
    const { reserve, settle, usage, moveTo } = key(budget(100n, "daily"), { at: "2026-03-10T16:59:30.500Z" })
    reserve("a", 100n)
    settle("a", 100n)
    expect(reserve("b", 1n)).toEqual({ kind: "budget-exceeded", retryAfterS: 30 })
    moveTo("2026-03-10T17:00:00Z")
    expect(usage()).toBe(zero)
    expect(reserve("b", 50n).kind).toBe("reserved")
  })

  test("of a month rolls over at the month's end, and of all time never", () => {
    for (const [period, rollsOver] of [
      ["monthly", true],
      ["total", false],
    ] as const) {
      const { reserve, settle, usage, moveTo } = key(budget(100n, period), { at: "2026-01-31T16:59:00Z" })
      reserve("a", 100n)
      settle("a", 100n)
      expect(reserve("b", 1n)).toMatchObject({ retryAfterS: rollsOver ? 60 : undefined })
      moveTo("2026-01-31T17:00:00Z")
      expect(usage()).toBe(rollsOver ? zero : micro(100n))
      moveTo("2030-01-01T00:00:00Z")
      expect(usage()).toBe(rollsOver ? zero : micro(100n))
    }
  })

  test.each([
    ["23 hours", "2026-03-08T05:00:00Z", 23],
    ["25 hours", "2026-11-01T04:00:00Z", 25],
  ])("of a day of %s lasts that long", (_, at, hours) => {
    const { clock, reserve, usage } = key({ ...budget(100n, "daily"), timeZone: "America/New_York" }, { at })
    reserve("a", 100n)
    expect(reserve("b", 1n)).toMatchObject({ retryAfterS: hours * 3_600 })
    clock.advance(hours * 3_600_000 - 1)
    expect(usage()).toBe(micro(100n))
    clock.advance(1)
    expect(usage()).toBe(zero)
  })

  test("counts a call in the day in which it was admitted, not in that in which it ended", () => {
    const { reserve, settle, release, usage, moveTo } = key(budget(100n, "daily"), { at: "2026-03-10T16:59:00Z" })
    const starts = startsOf(reserve("a", 40n))
    reserve("b", 10n)
    moveTo("2026-03-10T17:00:00Z")
    // Over its hold it may not go: what was left of yesterday is not known any more.
    expect(settle("a", 60n, starts)).toBe(micro(40n))
    release("b")
    expect(usage()).toBe(zero)
  })

  test("does not open anew when the wall clock is set back over midnight and passes it again", () => {
    const { clock, reserve, settle, usage, moveTo } = key(budget(100n, "daily"), { at: "2026-03-10T17:00:01Z" })
    reserve("a", 70n)
    settle("a", 70n)
    clock.shiftWall(-3_600_000)
    expect(usage()).toBe(micro(70n))
    expect(reserve("b", 31n)).toMatchObject({ kind: "budget-exceeded" })
    moveTo("2026-03-10T17:00:02Z")
    expect(usage()).toBe(micro(70n))
  })

  test("goes on under another time zone, with what was spent and held, to the first bound there that is not before its own", () => {
    for (const period of ["daily", "monthly"] as const) {
      const { clock, reserve, settle, usage, change, moveTo } = key(budget(100n, period))
      const starts = startsOf(reserve("a", 40n))
      const running = movedTo("America/New_York", clock.now())
      change({ timeZone: "America/New_York", running })
      expect(usage()).toBe(micro(40n))
      expect(settle("a", 30n, starts)).toBe(micro(30n))
      const ends = running[period]!.end
      // Midnight of Jakarta is not an end any more.
      moveTo(period === "daily" ? "2026-03-10T17:00:00Z" : "2026-03-31T17:00:00Z")
      expect(usage()).toBe(micro(30n))
      expect(startsOf(reserve("b", 70n))).toMatchObject({ [period]: starts[period] })
      expect(reserve("c", 1n)).toEqual({ kind: "budget-exceeded", retryAfterS: (ends - clock.now()) / 1_000 })
      moveTo(new Date(ends - 1).toISOString())
      expect(usage()).toBe(micro(100n))
      moveTo(new Date(ends).toISOString())
      expect(usage()).toBe(zero)
      expect(startsOf(reserve("d", 100n))).toMatchObject({ [period]: ends })
    }
  })

  test("that was spent in one time zone is spent in twelve, and after a start in the last of them", () => {
    const { clock, reserve, settle, usage, change } = key(budget(100n, "daily"))
    settle("a", 100n, startsOf(reserve("a", 100n)))
    let running: RunningPeriods = {}
    let timeZone = plain.timeZone
    for (let hours = -12; hours < 12; hours += 2) {
      const next = `Etc/GMT${hours < 0 ? hours : `+${hours}`}`
      running = movedTo(next, clock.now(), timeZone, running)
      timeZone = next
      change({ timeZone, running })
      expect([usage(), reserve(`b${hours}`, 1n).kind]).toEqual([micro(100n), "budget-exceeded"])
    }
    const again = key({ ...budget(100n, "daily"), timeZone, running }, { spent: 100n })
    expect([again.usage(), again.reserve("a", 1n).kind]).toEqual([micro(100n), "budget-exceeded"])
  })

  test("of a month may end within a day that runs on longer", () => {
    // The month was carried over from Jakarta, the day is one of New York.
    const running = {
      daily: period("2026-03-31T04:00:00Z", "2026-04-01T04:00:00Z", "2026-04-01T11:00:00Z"),
      monthly: period("2026-02-28T17:00:00Z", "2026-03-31T17:00:00Z", "2026-03-31T18:00:00Z"),
    }
    const { clock, reserve, settle, usage, moveTo } = key(
      { ...budget(100n, "monthly"), timeZone: "America/New_York", running },
      { at: "2026-03-31T12:00:00Z" },
    )
    settle("a", 100n, startsOf(reserve("a", 100n)))
    expect(reserve("b", 1n)).toMatchObject({ retryAfterS: 6 * 3_600 })
    moveTo("2026-03-31T18:00:00Z")
    expect(usage()).toBe(zero)
    settle("c", 50n, startsOf(reserve("c", 50n)))
    clock.shiftWall(-3_600_000)
    expect(usage()).toBe(micro(50n))
  })

  test("that cannot be leased is not known to be spent", () => {
    const told: ReserveReply[] = []
    const clock = new VirtualClock()
    const record = { ...plain, ...budget(100n, "total") }
    const starts = { daily: 0, monthly: 0, total: 0 }
    let asked: Budget | undefined
    const behaviour = new Key(
      {
        clock,
        self: () => {},
        load: () => {},
        driverOf: (budget) => ({ grow: () => (asked = budget), giveBack: () => {} }),
      },
      { record, starts, spent: { daily: zero, monthly: zero, total: zero } },
      whole,
    )
    const reservation = { requestId: "a", tokens: 0, least: micro(1n), worst: micro(1n) }
    behaviour.receive({ type: "reserve", reservation, reply: (reply) => void told.push(reply) })
    expect(told).toEqual([])
    behaviour.receive({ type: "budget", budget: asked!, news: { type: "not-grown" } })
    expect(told).toEqual([{ kind: "unavailable" }])
  })

  test("that was removed and set again in its period still knows what calls under way hold", () => {
    const { reserve, settle, change } = key(budget(100n, "total"))
    const starts = startsOf(reserve("a", 40n))
    change({ budget: undefined })
    change(budget(100n, "total"))
    expect(reserve("b", 61n).kind).toBe("budget-exceeded")
    expect(reserve("c", 60n).kind).toBe("reserved")
    expect(settle("a", 40n, starts)).toBe(micro(40n))
  })

  test("gets back what was not booked after all", () => {
    const { reserve, settle, usage, behaviour } = key(budget(100n, "daily"))
    const starts = startsOf(reserve("a", 40n))
    const charge = settle("a", 40n, starts)
    behaviour.receive({ type: "unsettle", charge, starts })
    expect(usage()).toBe(zero)
  })

  test("pays what a call costs, and no more than is left, when the key was started again in the midst of it", () => {
    const { reserve, settle, usage } = key(budget(100n, "daily"))
    expect(settle("admitted by another", 30n)).toBe(micro(30n))
    expect(usage()).toBe(micro(30n))
    expect(reserve("a", 50n)).toMatchObject({ kind: "reserved", hold: micro(50n) })
    expect(settle("admitted by another too", 30n)).toBe(micro(20n))
    expect(settle("a", 50n)).toBe(micro(50n))
    expect(usage()).toBe(micro(100n))
  })

  test("pays no more than was left of the day that a call was admitted in, when the key was started again after it", () => {
    const { reserve, settle, usage, moveTo } = key(budget(100n, "daily"), { at: "2026-03-10T16:00:00Z" })
    const { starts } = calendarAt(Date.parse("2026-03-10T16:00:00Z"), plain.timeZone)
    moveTo("2026-03-10T17:30:00Z")
    expect(reserve("a", 50n).kind).toBe("reserved")
    expect(settle("admitted by another", 130n, starts)).toBe(micro(100n))
    expect(settle("admitted by another too", 1n, starts)).toBe(zero)
    expect(usage()).toBe(micro(50n))
  })
})

describe("a change", () => {
  test("of limits acts at once, and what was counted and spent stays", () => {
    const { count, reserve, settle, change, usage, view } = key({ requestsPerMinute: 5, ...budget(100n, "daily") })
    for (let call = 0; call < 3; call++) count()
    reserve("a", 60n)
    settle("a", 60n)
    change({ requestsPerMinute: 3, ...budget(200n, "daily") })
    expect(count().kind).toBe("requests-exceeded")
    expect(usage()).toBe(micro(60n))
    change({ requestsPerMinute: undefined, budget: undefined })
    expect(count().kind).toBe("active")
    expect(view()).toMatchObject({ requests: undefined, budget: undefined })
  })

  test("that comes while another is read is read after it, so that an old answer never wins", () => {
    const { behaviour, loads } = key({})
    for (let change = 0; change < 3; change++) behaviour.receive({ type: "changed" })
    expect(loads()).toBe(1)
    behaviour.receive({ type: "loaded", loaded: undefined })
    expect(loads()).toBe(2)
    behaviour.receive({ type: "loaded", loaded: undefined })
    expect(loads()).toBe(2)
  })

  test("is answered once what was read after it is in force, however long that takes", () => {
    const { clock, behaviour } = key({})
    const loaded: LoadedKey = {
      record: { ...plain, revoked: true },
      starts: calendarAt(clock.now(), plain.timeZone).starts,
      spent: { daily: zero, monthly: zero, total: zero },
    }
    const told: string[] = []
    const change = (name: string) =>
      behaviour.receive({
        type: "changed",
        reply: () => told.push(`${name}: ${withSecret(behaviour, "").kind}`),
      })
    change("first")
    change("second")
    behaviour.receive({ type: "not-loaded" })
    expect(behaviour.idle()).toBe(false)
    change("third")
    expect(told).toEqual([])
    behaviour.receive({ type: "loaded", loaded })
    expect(told).toEqual(["first: revoked", "second: revoked"])
    behaviour.receive({ type: "loaded", loaded })
    expect(told).toEqual(["first: revoked", "second: revoked", "third: revoked"])
  })

  test("that cannot be read is tried again until it can", () => {
    const { clock, behaviour, loads } = key({})
    behaviour.receive({ type: "changed" })
    expect(behaviour.idle()).toBe(false)
    for (let attempt = 1; attempt <= 3; attempt++) {
      expect(loads()).toBe(attempt)
      behaviour.receive({ type: "not-loaded" })
      clock.advance(500)
    }
    expect(loads()).toBe(4)
  })

  test("that removes the key makes it unknown", () => {
    const { behaviour, count } = key({ requestsPerMinute: 5 })
    behaviour.receive({ type: "changed" })
    behaviour.receive({ type: "loaded", loaded: undefined })
    expect(count()).toEqual({ kind: "unknown" })
  })
})

describe("a key's share", () => {
  test("of its windows is what this process admits; the limit that is told stays the customer's", () => {
    const { count, reserve, view } = key(
      { requestsPerMinute: 5, tokensPerMinute: 100 },
      { share: { index: 0, count: 2 } },
    )
    for (let call = 0; call < 3; call++) expect(count().kind).toBe("active")
    expect(count()).toMatchObject({ kind: "requests-exceeded", retryAfterS: 60 })
    expect(view().requests).toEqual({ limit: 5, remaining: 0, resetS: 60 })
    reserve("a", 0n, 0n, 30)
    expect(reserve("b", 0n, 0n, 30)).toEqual({ kind: "tokens-exceeded", retryAfterS: 60 })
    expect(view().tokens).toEqual({ limit: 100, remaining: 20, resetS: 60 })
  })

  test("that changes acts at once, also on limits that are read anew, and what was counted stays", () => {
    const { count, send, change, view } = key({ requestsPerMinute: 6 })
    for (let call = 0; call < 3; call++) count()
    send({ type: "share", share: { index: 1, count: 2 } })
    expect(count()).toMatchObject({ kind: "requests-exceeded", view: { requests: { limit: 6, remaining: 0 } } })
    change({ requestsPerMinute: 9 })
    expect(count().kind).toBe("active")
    expect(count().kind).toBe("requests-exceeded")
    send({ type: "share", share: whole })
    expect(count().kind).toBe("active")
    expect(view()).toMatchObject({ requests: { limit: 9, remaining: 4 } })
  })

  test("does not keep out a call that is larger than it: that one waits for an empty window", () => {
    const { clock, reserve } = key({ tokensPerMinute: 100 }, { share: { index: 1, count: 4 } })
    reserve("a", 0n, 0n, 20)
    clock.advance(10_000)
    expect(reserve("b", 0n, 0n, 90)).toEqual({ kind: "tokens-exceeded", retryAfterS: 50 })
    clock.advance(50_000)
    expect(reserve("b", 0n, 0n, 90).kind).toBe("reserved")
    expect(reserve("c", 0n, 0n, 1).kind).toBe("tokens-exceeded")
    expect(reserve("d", 0n, 0n, 101)).toEqual({ kind: "tokens-exceeded", retryAfterS: undefined })
  })
})

test("a key is idle only with nothing reserved and its windows empty", () => {
  const { clock, behaviour, count, reserve, release } = key({ requestsPerMinute: 5 })
  expect(behaviour.idle()).toBe(true)
  count()
  clock.advance(59_999)
  expect(behaviour.idle()).toBe(false)
  clock.advance(1)
  expect(behaviour.idle()).toBe(true)
  reserve("a", 0n)
  clock.advance(3_600_000)
  expect(behaviour.idle()).toBe(false)
  release("a")
  expect(behaviour.idle()).toBe(true)
})
