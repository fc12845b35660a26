import { expect, test } from "bun:test"
import { assert, constantFrom, date, property } from "fast-check"
import { instantOf, wallTimeIn } from "../../src/dashboard/i18n/figures.ts"

test.each([
  ["2026-11-21T10:15:30", "Asia/Jakarta", "2026-11-21T03:15:30Z"],
  ["2026-11-21T00:00", "Asia/Jayapura", "2026-11-20T15:00:00Z"],
  ["2026-07-01T12:00", "Europe/Berlin", "2026-07-01T10:00:00Z"],
  ["2026-12-01T12:00", "Europe/Berlin", "2026-12-01T11:00:00Z"],
  // The hours beside a change of clocks, and one that it leaves out.
  ["2026-03-29T01:59", "Europe/Berlin", "2026-03-29T00:59:00Z"],
  ["2026-03-29T03:00", "Europe/Berlin", "2026-03-29T01:00:00Z"],
  ["2026-03-29T02:30", "Europe/Berlin", "2026-03-29T01:30:00Z"],
])("%s in %s is %s", (wall, timeZone, instant) => {
  expect(new Date(instantOf(wall, timeZone) ?? 0)).toEqual(new Date(instant))
})

test.each(["", "tomorrow", "2026-13-01T00:00"])("%p is no time", (wall) => {
  expect(instantOf(wall, "Asia/Jakarta")).toBeUndefined()
})

test("what a clock shows is read back as what it shows", () => {
  const moments = date({ min: new Date("2000-01-01"), max: new Date("2100-01-01"), noInvalidDate: true })
  assert(
    property(moments, constantFrom("Asia/Jakarta", "America/New_York", "Asia/Kathmandu"), (moment, timeZone) => {
      const wall = wallTimeIn(timeZone, moment.getTime())
      expect(wallTimeIn(timeZone, instantOf(wall, timeZone) ?? 0)).toBe(wall)
    }),
  )
})
