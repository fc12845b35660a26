import { expect, test } from "bun:test"
import { assert, bigInt, constantFrom, property } from "fast-check"
import { formatRupiah, momentText, parseMoment, parseRupiah, parseWhole } from "../../src/dashboard/i18n/figures.ts"

test.each([
  ["50000", 50_000_000_000n, 50_000_000_000n],
  ["50.000", 50_000_000_000n, 50_000_000n],
  ["50,000", 50_000_000n, 50_000_000_000n],
  ["Rp 1.234.567", 1_234_567_000_000n, undefined],
  [" 10.5 ", undefined, 10_500_000n],
  ["10,5", 10_500_000n, undefined],
  ["0", 0n, 0n],
  ["", undefined, undefined],
  ["-5", undefined, undefined],
  ["1e3", undefined, undefined],
  ["10.00", undefined, 10_000_000n],
  ["1,2345678", undefined, undefined],
  ["ten", undefined, undefined],
])("%p is %p micro-rupiah in Indonesian and %p in English", (text, indonesian, english) => {
  expect(parseRupiah(text, "id")).toBe(indonesian)
  expect(parseRupiah(text, "en")).toBe(english)
})

test("whatever amount is shown reads back as itself", () => {
  assert(
    property(bigInt({ min: 0n, max: 2n ** 53n }), constantFrom("id", "en"), (micro, language) => {
      expect(parseRupiah(formatRupiah(micro, language, "exact"), language)).toBe(micro)
    }),
  )
})

test.each([
  ["60", 60],
  ["1.000.000", 1_000_000],
  ["1,5", undefined],
  ["60 per menit", undefined],
  ["9999999999999999", undefined],
  ["", undefined],
])("%p is the whole number %p in Indonesian", (text, number) => {
  expect(parseWhole(text, "id")).toBe(number)
})

test.each([
  ["21/11/2026", "2026-11-21"],
  ["1/2/2026", "2026-02-01"],
  [" 21-11-2026 ", "2026-11-21"],
  ["21.11.2026", "2026-11-21"],
  ["2026-11-21", "2026-11-21"],
  ["29/02/2028", "2028-02-29"],
  ["29/02/2026", undefined],
  ["31/11/2026", undefined],
  ["11/21/2026", undefined],
  ["21/11/26", undefined],
  ["21/11/2026 14.30", undefined],
  ["besok", undefined],
  ["", undefined],
])("%p is the day %p", (text, day) => {
  expect(parseMoment(text, false)).toBe(day)
})

test.each([
  ["21/11/2026 14.30", "2026-11-21T14:30:00"],
  ["21/11/2026, 9:05", "2026-11-21T09:05:00"],
  ["21/11/2026 23.59.30", "2026-11-21T23:59:30"],
  ["2026-11-21T10:15:30", "2026-11-21T10:15:30"],
  ["21/11/2026 24.00", undefined],
  ["21/11/2026 14.60", undefined],
  ["31/11/2026 14.30", undefined],
  ["21/11/2026", undefined],
])("%p is the time %p", (text, time) => {
  expect(parseMoment(text, true)).toBe(time)
})

test("a day and a time that are shown read back as themselves", () => {
  for (const language of ["id", "en"] as const) {
    for (const moment of ["2026-11-21", "2026-01-02T00:00:00", "2028-02-29T23:59:30"]) {
      expect(parseMoment(momentText(moment, language), moment.includes("T"))).toBe(moment)
    }
  }
  expect(momentText("2026-11-21T14:30:00", "id")).toBe("21/11/2026 14.30")
  expect(momentText("2026-11-21T14:30:00", "en")).toBe("21/11/2026 14:30")
})
