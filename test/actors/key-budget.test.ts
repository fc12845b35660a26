import { describe, expect, test } from "bun:test"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { Key } from "../../actors/key.ts"
import type { ReserveReply } from "../../actors/key-record.ts"
import { type Micro, micro, zero } from "../../actors/money/micro.ts"
import type { Budget } from "../../actors/key-limits.ts"
import { calendarAt, type RunningPeriods } from "../../actors/period.ts"
import { whole } from "../../actors/lease.ts"
import { plain, budget, key, movedTo, period, startsOf } from "./key-harness.ts"

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

  test("that was lowered does not pay again with what holds from before have left", () => {
    const { reserve, trim, settle, release, change } = key(budget(1_000n, "total"))
    for (const requestId of ["a", "b", "c"]) reserve(requestId, 100n, 100n)
    change(budget(100n, "total"))
    settle("a", 50n)
    release("b")
    trim("c", 10n)
    release("c")
    expect(reserve("d", 51n)).toMatchObject({ kind: "budget-exceeded" })
    expect(reserve("e", 50n)).toMatchObject({ kind: "reserved" })
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
    // Nor is it known what a call may cost that a crashed actor held for.
    const charges: Micro[] = []
    const usage = { requestId: "b", tokens: 0, actual: micro(1n), starts }
    behaviour.receive({ type: "settle", usage, reply: (charge) => charges.push(charge) })
    behaviour.receive({ type: "budget", budget: asked!, news: { type: "not-grown" } })
    expect(charges).toEqual([])
    // What costs nothing needs no budget.
    behaviour.receive({ type: "settle", usage: { ...usage, actual: zero }, reply: (charge) => charges.push(charge) })
    expect(charges).toEqual([zero])
  })

  test("that a key has not, or has no more, bounds no call", () => {
    const { reserve, settle, change } = key(budget(100n, "daily"))
    const starts = startsOf(reserve("a", 10n, 60n))
    change({ budget: undefined })
    expect(settle("a", 130n, starts)).toBe(micro(130n))
    expect(settle("admitted by a key that was started again", 130n)).toBe(micro(130n))
  })

  test("pays its last micro-rupiah for a call that was admitted before the key was started again", () => {
    const { settle } = key(budget(100n, "daily"), { spent: 99n })
    expect(settle("admitted by another", 30n)).toBe(micro(1n))
  })

  test("is not spent anew by what was spent the day before, nor is that forgotten when some of it is taken back", () => {
    const at = "2026-03-10T12:00:00Z"
    const { usage, moveTo, behaviour } = key(budget(100n, "daily"), { at, spent: 60n })
    const { starts } = calendarAt(Date.parse(at), plain.timeZone)
    behaviour.receive({ type: "unsettle", charge: micro(20n), starts })
    expect(usage()).toBe(micro(40n))
    // It may have been taken back before that was read.
    behaviour.receive({ type: "unsettle", charge: micro(50n), starts })
    expect(usage()).toBe(zero)
    moveTo("2026-03-10T17:00:00Z")
    expect(usage()).toBe(zero)
  })

  test("keeps of a lease what calls under way hold, once its day is over or it is one of another period", () => {
    for (const end of ["day", "change"] as const) {
      const { clock, reserve, release, settle, usage, change, moveTo, kept } = key(budget(100n, "daily"))
      const starts = startsOf(reserve("a", 40n))
      reserve("b", 10n)
      expect(kept("daily")).toBe(100n)
      if (end === "day") moveTo("2026-03-10T17:00:00Z")
      else change(budget(100n, "monthly"))
      expect([usage(), kept("daily", starts.daily)]).toEqual([zero, 50n])
      release("b")
      expect(kept("daily", starts.daily)).toBe(40n)
      settle("a", 30n, starts)
      expect(kept("daily", starts.daily)).toBe(30n)
      // Nor is more kept of it for a call that was admitted by a key that was started again.
      settle("admitted by another", 20n, starts)
      if (end === "day") expect(kept("daily", starts.daily)).toBe(50n)
      clock.advance(1_000)
    }
  })

  test("gives back all that is not held while its process drains, also one that is set meanwhile", () => {
    for (const when of ["before", "after"] as const) {
      const { reserve, release, settle, change, kept, send } = key(when === "before" ? budget(100n, "daily") : {})
      if (when === "before") {
        reserve("a", 40n)
        expect(kept("daily")).toBe(100n)
        send({ type: "lease", news: { type: "drain" } })
        expect(kept("daily")).toBe(40n)
        release("a")
      } else {
        send({ type: "lease", news: { type: "drain" } })
        change(budget(100n, "daily"))
      }
      expect(kept("daily")).toBe(0n)
      reserve("b", 10n)
      settle("b", 5n)
      expect(kept("daily")).toBe(5n)
    }
    const { change, kept, reserve, send } = key({})
    send({ type: "lease", news: { type: "freed" } })
    change(budget(100n, "daily"))
    reserve("a", 10n)
    expect(kept("daily")).toBe(100n)
  })

  test("keeps a key until its lease is given back, and one that was started again until it knows of one", () => {
    const { clock, behaviour, reserve, release, kept } = key(budget(100n, "total"))
    expect(behaviour.idle()).toBe(true)
    reserve("a", 40n)
    release("a")
    expect([behaviour.idle(), kept("total")]).toEqual([false, 100n])
    clock.advance(120_000)
    expect([behaviour.idle(), kept("total")]).toEqual([true, 0n])
    const again = key(budget(100n, "total"), { isRestarted: true })
    expect(again.behaviour.idle()).toBe(false)
    again.clock.advance(240_000)
    expect([again.behaviour.idle(), again.kept("total")]).toEqual([true, 0n])
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

  test("of another period has spent of it what a call costs that was admitted before, and gets that back", () => {
    const { reserve, release, settle, usage, change, behaviour } = key(budget(100n, "daily"))
    const starts = startsOf(reserve("a", 40n))
    change(budget(100n, "monthly"))
    // All of the month is leased by it.
    reserve("b", 10n)
    release("b")
    const charge = settle("a", 40n, starts)
    expect(charge).toBe(micro(40n))
    expect(usage()).toBe(micro(40n))
    expect(reserve("c", 61n).kind).toBe("budget-exceeded")
    behaviour.receive({ type: "unsettle", charge, starts })
    expect(usage()).toBe(zero)
    expect(reserve("d", 100n).kind).toBe("reserved")
  })

  test("that is nearly all held when it is changed pays once for what a call from before costs beyond the rest", () => {
    const { clock, reserve, release, settle, usage, change, book } = key(budget(100n, "daily"))
    const starts = startsOf(reserve("a", 40n))
    change(budget(100n, "total"))
    reserve("b", 90n, 90n)
    expect(settle("a", 40n, starts)).toBe(micro(40n))
    book("total", 40n)
    expect(usage()).toBe(micro(130n))
    release("b")
    expect(reserve("c", 61n).kind).toBe("budget-exceeded")
    clock.advance(1_000)
    expect(usage()).toBe(micro(40n))
    expect(reserve("d", 61n).kind).toBe("budget-exceeded")
    expect(reserve("e", 60n).kind).toBe("reserved")
  })

  test("pays for a hold in full, whatever a call from before its change has cost meanwhile", () => {
    const { clock, reserve, settle, usage, change, book } = key(budget(100n, "daily"))
    const starts = startsOf(reserve("a", 40n))
    change(budget(100n, "total"))
    reserve("b", 90n, 90n)
    settle("a", 40n, starts)
    book("total", 40n)
    expect(settle("b", 95n)).toBe(micro(90n))
    book("total", 90n)
    expect(usage()).toBe(micro(130n))
    change(budget(200n, "total"))
    clock.advance(1_000)
    expect(reserve("c", 71n).kind).toBe("budget-exceeded")
    expect(reserve("d", 70n).kind).toBe("reserved")
    expect(usage()).toBe(micro(200n))
  })

  test.each(["before", "after"])(
    "that is spent when a call from before its change ends has spent that too, %s it is raised",
    (booked) => {
      const { clock, reserve, settle, usage, change, book } = key(budget(100n, "daily"))
      const starts = startsOf(reserve("a", 40n))
      change(budget(100n, "total"))
      reserve("b", 100n)
      settle("b", 100n)
      book("total", 100n)
      settle("a", 40n, starts)
      if (booked === "before") book("total", 40n)
      change(budget(200n, "total"))
      expect(reserve("c", 61n).kind).toBe("budget-exceeded")
      if (booked === "after") book("total", 40n)
      clock.advance(1_000)
      expect(usage()).toBe(micro(140n))
      expect(reserve("d", 61n).kind).toBe("budget-exceeded")
      expect(reserve("e", 60n).kind).toBe("reserved")
      expect(usage()).toBe(micro(200n))
    },
  )

  test("that is being leased for the first time knows what a call from before it costs meanwhile", () => {
    const told: ReserveReply[] = []
    const clock = new VirtualClock()
    const starts = { daily: 0, monthly: 0, total: 0 }
    const spent = { daily: zero, monthly: zero, total: zero }
    const begun: ["growth" | "return" | "recount", Budget][] = []
    const behaviour = new Key(
      {
        clock,
        self: (command) => behaviour.receive(command),
        load: () => {},
        driverOf: (budget) => ({
          grow: () => begun.push(["growth", budget]),
          giveBack: (_, recount) => begun.push([recount ? "recount" : "return", budget]),
        }),
      },
      { record: plain, starts, spent },
      whole,
    )
    const reserve = (requestId: string, least: bigint) => {
      const reservation = { requestId, tokens: 0, least: micro(least), worst: micro(least) }
      behaviour.receive({ type: "reserve", reservation, reply: (reply) => void told.push(reply) })
    }
    reserve("a", 40n)
    behaviour.receive({ type: "loaded", loaded: { record: { ...plain, ...budget(100n, "total") }, starts, spent } })
    reserve("b", 10n)
    behaviour.receive({
      type: "settle",
      usage: { requestId: "a", tokens: 0, actual: micro(40n), starts },
      reply: () => {},
    })
    const lease = { granted: micro(100n), returned: zero, settled: zero, version: 1 }
    const [[, of] = []] = begun
    behaviour.receive({ type: "budget", budget: of!, news: { type: "grown", lease, more: false, elsewhere: zero } })
    reserve("c", 51n)
    expect(told.map(({ kind }) => kind)).toEqual(["reserved", "reserved", "budget-exceeded"])
    // Whether it was of the lease is found out.
    clock.advance(500)
    expect(begun.map(([statement]) => statement)).toEqual(["growth", "recount"])
    const recounted = { ...lease, settled: micro(40n), version: 2 }
    behaviour.receive({ type: "budget", budget: of!, news: { type: "returned", lease: recounted } })
    const usages: (bigint | undefined)[] = []
    behaviour.receive({ type: "view", reply: (view) => usages.push(view.budget?.usage) })
    expect(usages).toEqual([50n])
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
