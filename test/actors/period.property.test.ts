import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { VirtualClock } from "../kernel/virtual-time.ts"
import {
  type Calendar,
  calendarAt,
  type CalendarPeriod,
  carriedOver,
  KeyCalendar,
  type RunningPeriods,
} from "../../actors/period.ts"

const HOUR_MS = 3_600_000
/** With whole, half and quarter hours, both edges of the day, and summer times of an hour and of half of one. */
const ZONES = [
  "Asia/Jakarta",
  "Pacific/Kiritimati",
  "Etc/GMT+12",
  "America/New_York",
  "America/Havana",
  "Australia/Lord_Howe",
  "Asia/Kathmandu",
  "America/St_Johns",
  "Europe/London",
  "UTC",
] as const

/** An account's calendar, as the store keeps it: the zone, and what was running when it changed. */
class Owner {
  zone: string
  #running: RunningPeriods = {}

  constructor(zone: string) {
    this.zone = zone
  }

  move(to: string, now: number): void {
    const carried = (period: CalendarPeriod) => carriedOver(now, period, this.zone, to, this.#running[period])
    this.#running = { daily: carried("daily"), monthly: carried("monthly") }
    this.zone = to
  }

  get running(): RunningPeriods {
    return this.#running
  }

  at(now: number): Calendar {
    return calendarAt(now, this.zone, this.#running)
  }
}

const at = (iso: string) => Date.parse(iso)
const instants = fc.date({ min: new Date("2026-01-01"), max: new Date("2026-12-31"), noInvalidDate: true })
const zones = fc.constantFrom(...ZONES)

const endOf = (calendar: Calendar, period: CalendarPeriod) =>
  period === "daily" ? calendar.dayEnds : calendar.monthEnds

describe("a period", () => {
  test("is the day and the month of the zone, where the zone never changed", () => {
    expect(calendarAt(at("2026-03-10T12:00:00Z"), "Asia/Jakarta")).toEqual({
      starts: { daily: at("2026-03-09T17:00:00Z"), monthly: at("2026-02-28T17:00:00Z"), total: 0 },
      dayEnds: at("2026-03-10T17:00:00Z"),
      monthEnds: at("2026-03-31T17:00:00Z"),
    })
  })

  test.each([
    // To the east the new zone's midnight has passed already: the next one.
    ["Pacific/Kiritimati", "2026-03-11T10:00:00Z", "2026-04-30T10:00:00Z"],
    // To the west its midnight is later today.
    ["America/New_York", "2026-03-11T04:00:00Z", "2026-04-01T04:00:00Z"],
    // Its midnight is the same one.
    ["Asia/Bangkok", "2026-03-10T17:00:00Z", "2026-03-31T17:00:00Z"],
  ])(
    "that runs when the zone becomes %s ends at that zone's first bound that is not before its own",
    (to, day, month) => {
      const now = at("2026-03-10T12:00:00Z")
      const owner = new Owner("Asia/Jakarta")
      const { starts } = owner.at(now)
      owner.move(to, now)
      expect(owner.at(now)).toEqual({ starts, dayEnds: at(day), monthEnds: at(month) })
      // From there on the calendar goes on as if the zone had always been this one.
      for (const then of [at(day), at(month)]) expect(owner.at(then).dayEnds).toBe(calendarAt(then, to).dayEnds)
      expect(owner.at(at(day)).starts.daily).toBe(at(day))
      expect(owner.at(at(month)).starts.monthly).toBe(at(month))
    },
  )

  test("ends when it would have, after a change of the zone there and back", () => {
    fc.assert(
      fc.property(zones, fc.array(zones, { maxLength: 6 }), instants, (home, others, moment) => {
        const now = moment.getTime()
        const owner = new Owner(home)
        const before = owner.at(now)
        for (const zone of [...others, home]) owner.move(zone, now)
        expect(owner.at(now)).toEqual(before)
      }),
    )
  })

  test("begins anew no oftener than a day or a month of some calendar has gone by, however the zone changes", () => {
    const steps = fc.array(
      fc.record({ zone: fc.option(zones), afterMs: fc.oneof(fc.nat(2 * HOUR_MS), fc.nat(80 * HOUR_MS)) }),
      { minLength: 1, maxLength: 60 },
    )
    fc.assert(
      fc.property(zones, instants, steps, (home, moment, changes) => {
        const owner = new Owner(home)
        let now = moment.getTime()
        /** The calendar's own end of what began last, in the zone in which it began. */
        const seen = {
          daily: { start: -Infinity, ownEnd: -Infinity },
          monthly: { start: -Infinity, ownEnd: -Infinity },
        }
        const look = () => {
          const calendar = owner.at(now)
          for (const period of ["daily", "monthly"] as const) {
            const start = calendar.starts[period]
            const last = seen[period]
            expect(start).toBeLessThanOrEqual(now)
            expect(endOf(calendar, period)).toBeGreaterThan(now)
            if (start === last.start) continue
            expect(start).toBeGreaterThanOrEqual(last.ownEnd)
            seen[period] = { start, ownEnd: endOf(calendarAt(start, owner.zone), period) }
          }
        }
        look()
        for (const { zone, afterMs } of changes) {
          if (zone !== null) owner.move(zone, now)
          look()
          now += afterMs
          look()
        }
      }),
      { numRuns: 300 },
    )
  })

  test("is stretched by less than a day or a month of the new zone", () => {
    fc.assert(
      fc.property(zones, zones, instants, (from, to, moment) => {
        const now = moment.getTime()
        const owner = new Owner(from)
        const before = owner.at(now)
        owner.move(to, now)
        const after = owner.at(now)
        for (const period of ["daily", "monthly"] as const) {
          const most = (period === "daily" ? 25 : 31 * 24 + 1) * HOUR_MS
          const stretched = endOf(after, period) - endOf(before, period)
          expect(stretched).toBeGreaterThanOrEqual(0)
          expect(stretched).toBeLessThan(most)
          // What it ends at is a bound of the new zone.
          expect(calendarAt(endOf(after, period), to).starts[period]).toBe(endOf(after, period))
        }
      }),
    )
  })
})

describe("a key's calendar", () => {
  const jakarta = { timeZone: "Asia/Jakarta" }
  const following = (iso: string) => {
    const clock = new VirtualClock(at(iso))
    const calendar = new KeyCalendar(clock)
    calendar.follow(jakarta)
    return { clock, calendar }
  }

  test("says in how many seconds a period is over, at least one, and of the total that it never is", () => {
    const { clock, calendar } = following("2026-03-10T16:59:58.500Z")
    expect(["daily", "monthly", "total"].map((each) => calendar.endsInS(each as CalendarPeriod))).toEqual([
      2,
      21 * 86_400 + 2,
      undefined,
    ])
    clock.advance(1_499)
    expect(calendar.endsInS("daily")).toBe(1)
    clock.advance(1)
    expect(calendar.endsInS("daily")).toBe(86_400)
  })

  test("goes on from what it has begun, when the wall clock is set back by less than a day and the key is read again", () => {
    for (const [iso, starts] of [
      ["2026-03-10T17:00:00Z", { daily: at("2026-03-10T17:00:00Z"), monthly: at("2026-02-28T17:00:00Z"), total: 0 }],
      ["2026-03-31T17:00:00Z", { daily: at("2026-03-31T17:00:00Z"), monthly: at("2026-03-31T17:00:00Z"), total: 0 }],
    ] as const) {
      const { clock, calendar } = following(iso)
      expect(calendar.starts()).toEqual(starts)
      clock.shiftWall(1 - 24 * HOUR_MS)
      calendar.follow({ ...jakarta, running: {} })
      expect(calendar.starts()).toEqual(starts)
      // What a clock that was ahead by days has begun is not what runs.
      clock.shiftWall(-1)
      expect(calendar.starts().daily).toBe(starts.daily - 24 * HOUR_MS)
    }
  })

  test("follows its account to another zone at once, and what was carried over of the day and of the month", () => {
    const { clock, calendar } = following("2026-03-10T12:00:00Z")
    const owner = new Owner("Asia/Jakarta")
    calendar.starts()
    for (const zone of ["America/New_York", "Etc/GMT+12", "Asia/Jakarta"]) {
      owner.move(zone, clock.now())
      calendar.follow({ timeZone: zone, running: owner.running })
      const { starts, dayEnds, monthEnds } = owner.at(clock.now())
      expect(calendar.starts()).toEqual(starts)
      expect(calendar.endsInS("daily")).toBe((dayEnds - clock.now()) / 1_000)
      expect(calendar.endsInS("monthly")).toBe((monthEnds - clock.now()) / 1_000)
    }
    for (const [timeZone, hours] of [
      ["UTC", 12],
      ["America/New_York", 16],
    ] as const) {
      calendar.follow({ timeZone })
      expect(calendar.endsInS("daily")).toBe(hours * 3_600)
    }
    const hour = (hours: number) => ({ start: 0, ownEnd: 0, end: clock.now() + hours * HOUR_MS })
    for (const [day, month] of [
      [1, 1],
      [2, 1],
      [2, 2],
    ] as const) {
      calendar.follow({ ...jakarta, running: { daily: hour(day), monthly: hour(month) } })
      expect([calendar.endsInS("daily"), calendar.endsInS("monthly")]).toEqual([day * 3_600, month * 3_600])
    }
  })
})
