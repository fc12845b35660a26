import { expect, test } from "bun:test"
import { assert, bigInt, property } from "fast-check"
import { formatRupiah } from "../../src/dashboard/i18n/format.ts"

const NBSP = "\u00A0"

test.each([
  [12_345_670_000n, "12.345,67", "12,345.67"],
  [100_000_000_000n, "100.000", "100,000"],
  [1_999_999n, "1,99", "1.99"],
  [1_500_000n, "1,50", "1.50"],
  [164_000n, "0,164", "0.164"],
  [1n, "0,000001", "0.000001"],
  [0n, "0", "0"],
])("%p micro is Rp %s in Indonesian and Rp %s in English", (micro, indonesian, english) => {
  expect(formatRupiah(micro, "id")).toBe(`Rp${NBSP}${indonesian}`)
  expect(formatRupiah(micro, "en")).toBe(`Rp${NBSP}${english}`)
})

test("a debit has a minus before the currency", () => {
  expect(formatRupiah(-2_500_000n, "id")).toBe(`\u2212Rp${NBSP}2,50`)
})

test("whole rupiah are cut and not rounded: nobody is shown more than there is", () => {
  expect(formatRupiah(9_999_999n, "id", "whole")).toBe(`Rp${NBSP}9`)
})

test("exact text reads back as the same amount, whatever it is", () => {
  assert(
    property(bigInt({ min: 0n, max: 2n ** 63n - 1n }), (micro) => {
      const text = formatRupiah(micro, "en", "exact").slice(3).replaceAll(",", "")
      const [whole = "", fraction = ""] = text.split(".")
      expect(BigInt(whole + fraction.padEnd(6, "0"))).toBe(micro)
    }),
  )
})
