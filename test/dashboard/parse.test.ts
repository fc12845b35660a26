import { expect, test } from "bun:test"
import { assert, bigInt, constantFrom, property } from "fast-check"
import { formatRupiah } from "../../src/dashboard/i18n/format.ts"
import { parseRupiah, parseWhole } from "../../src/dashboard/i18n/parse.ts"

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
