import { expect, test } from "bun:test"
import { parseRetryAfter } from "../../src/wire/backend-error.ts"

const nowMs = Date.UTC(2026, 10, 20, 12, 0, 0)

const values: [string | null | undefined, number | undefined][] = [
  ["0", 0],
  ["2", 2],
  [" 30 ", 30],
  ["3600", 3600],
  ["3601", 3600],
  ["86400", 3600],
  ["86401", undefined],
  ["99999999999999", undefined],
  ["-1", undefined],
  ["1.5", undefined],
  ["1e3", undefined],
  ["0x10", undefined],
  ["5s", undefined],
  ["soon", undefined],
  ["", undefined],
  [null, undefined],
  [undefined, undefined],
  ["Fri, 20 Nov 2026 12:00:30 GMT", 30],
  ["Friday, 20-Nov-26 12:01:00 GMT", 60],
  ["Fri Nov 20 12:02:00 2026", 120],
  ["Fri, 20 Nov 2026 18:00:00 GMT", 3600],
  ["Sat, 21 Nov 2026 12:00:01 GMT", undefined],
  ["Fri, 20 Nov 2026 11:59:00 GMT", undefined],
  ["Sunday, 06-Nov-94 08:49:37 GMT", undefined],
  ["Fri, 20 Foo 2026 12:00:30 GMT", undefined],
  ["2026-11-20T12:00:30Z", undefined],
]

test.each(values)("%p is %p seconds", (value, seconds) => {
  expect(parseRetryAfter(value, nowMs)).toBe(seconds)
})

test("a date between two seconds is rounded up", () => {
  expect(parseRetryAfter("Fri, 20 Nov 2026 12:00:30 GMT", nowMs + 1)).toBe(30)
})

test("a month that is none is not taken for the last of the year before", () => {
  expect(parseRetryAfter("Sun, 20 Foo 2027 12:00:30 GMT", Date.UTC(2026, 11, 20, 12, 0, 0))).toBeUndefined()
})
