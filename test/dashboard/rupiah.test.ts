import { expect, test } from "bun:test"
import { assert, bigInt, property } from "fast-check"
import { micro, rupiahText } from "../../actors/money/micro.ts"
import { formatRupiah } from "../../src/dashboard/i18n/figures.ts"

const NBSP = "\u00A0"

test.each([
  [12_345_670_000n, "12.345,67", "12,345.67"],
  [100_000_000_000n, "100.000", "100,000"],
  [1_994_999n, "1,99", "1.99"],
  [1_995_000n, "2,00", "2.00"],
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

test("whole rupiah are rounded to the nearest", () => {
  expect(formatRupiah(9_499_999n, "id", "whole")).toBe(`Rp${NBSP}9`)
  expect(formatRupiah(9_500_000n, "id", "whole")).toBe(`Rp${NBSP}10`)
})

test("what was spent and what is left add up as they are shown", () => {
  expect(formatRupiah(204_913_600n, "id")).toBe(`Rp${NBSP}204,91`)
  expect(formatRupiah(75_000_000_000n - 204_913_600n, "id")).toBe(`Rp${NBSP}74.795,09`)
})

test.each([
  [100_000_000_000n, "Rp_100.000,00"],
  [487_536n, "Rp_0,49"],
  [5_000n, "Rp_0,01"],
  [4_999n, "<_Rp_0,01"],
  [-4_999n, "<_\u2212Rp_0,01"],
  [0n, "Rp_0,00"],
])("%p micro in a column is %s: comma below comma", (micro, shown) => {
  expect(formatRupiah(micro, "id", "column")).toBe(shown.replaceAll("_", NBSP))
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

test("mails and documents write an amount as the dashboard does", () => {
  assert(
    property(bigInt({ min: -(10n ** 20n), max: 10n ** 20n }), (amount) => {
      for (const language of ["id", "en"] as const) {
        const shown = formatRupiah(amount, language, "exact").replaceAll(NBSP, " ").replace("\u2212", "-")
        expect(rupiahText(micro(amount), language)).toBe(shown)
      }
    }),
  )
  expect(rupiahText(micro(-12_345_670_000n), "en")).toBe("-Rp 12,345.67")
  expect(rupiahText(micro(12_345_000_000n), "id")).toBe("Rp 12.345")
})
