import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { COST_DIGITS, type Cost, costOf, largestCost, noTokens, roundings } from "../../actors/money/price.ts"
import { parseDecimal } from "../../src/catalogue/exchange.ts"
import { largestMicro, micro } from "../../actors/money/micro.ts"

const nano = (text: string): bigint => parseDecimal(text, COST_DIGITS) ?? -1n
const rupiah = (text: string) => micro(parseDecimal(text, 6) ?? -1n)
const rates = (input: string, output: string, cacheRead: string, cacheWrite: string): Cost["rates"] => ({
  input: nano(input),
  output: nano(output),
  cacheRead: nano(cacheRead),
  cacheWrite: nano(cacheWrite),
})
const plain: Cost = {
  currency: "USD",
  rates: rates("3", "15", "0.3", "3.75"),
  perCall: 0n,
  perSearch: 0n,
  rounding: "none",
  step: 1n,
}

const count = fc.oneof(fc.nat(2_000), fc.nat(3_000_000))
const tokens = fc.record({ input: count, cacheRead: count, cacheWrite: count, output: count })
const amount = fc.oneof(fc.constant(0n), fc.bigInt(0n, 100n * 10n ** 9n))
const cost: fc.Arbitrary<Cost> = fc.record({
  currency: fc.constant("USD"),
  rates: fc.record({ input: amount, output: amount, cacheRead: amount, cacheWrite: amount }),
  perCall: amount,
  perSearch: amount,
  rounding: fc.constantFrom(...roundings),
  step: fc.constantFrom(1n, 1_000n, 10_000_000n),
})
const exchange = fc.bigInt(1n, 20_000_000_000n).map(micro)
const searches = fc.nat(5)

test("a million tokens of each bucket at 16,250.50 rupiah a dollar cost what a hand comes to", () => {
  const million = { input: 1_000_000, cacheRead: 1_000_000, cacheWrite: 1_000_000, output: 1_000_000 }
  // $22.05 × Rp 16,250.50
  expect(costOf({ tokens: million, searches: 0 }, plain, rupiah("16250.50"))).toBe(rupiah("358323.525"))
})

test("one token of the cheapest bucket is not free, and a part of a micro-rupiah is a whole one", () => {
  const one = { ...noTokens, cacheRead: 1 }
  expect(costOf({ tokens: one, searches: 0 }, plain, rupiah("16000"))).toBe(micro(4_800n))
  expect(costOf({ tokens: one, searches: 0 }, plain, rupiah("16000.000001"))).toBe(micro(4_801n))
  const smallest = { ...plain, rates: { ...plain.rates, cacheRead: 1n } }
  expect(costOf({ tokens: one, searches: 0 }, smallest, micro(1n))).toBe(micro(1n))
  expect(costOf({ tokens: noTokens, searches: 0 }, plain, rupiah("16000"))).toBe(micro(0n))
})

test("fees are for each call and each search", () => {
  const billed = { ...plain, perCall: nano("0.001"), perSearch: nano("0.01") }
  expect(costOf({ tokens: noTokens, searches: 0 }, billed, rupiah("16000"))).toBe(rupiah("16"))
  expect(costOf({ tokens: noTokens, searches: 3 }, billed, rupiah("16000"))).toBe(rupiah("496"))
})

test("a backend that rounds a call to cents bills one, and one that rounds each bucket bills several", () => {
  const used = { tokens: { input: 100, cacheRead: 100, cacheWrite: 0, output: 100 }, searches: 0 }
  const step = nano("0.01")
  expect(costOf(used, { ...plain, rounding: "per_call", step }, rupiah("16000"))).toBe(rupiah("160"))
  expect(costOf(used, { ...plain, rounding: "per_bucket", step }, rupiah("16000"))).toBe(rupiah("480"))
})

test("the cost is never under the exact one, and over it by less than a micro-rupiah where nothing is rounded", () => {
  fc.assert(
    fc.property(tokens, cost, exchange, searches, (tokens, cost, exchange, searches) => {
      const { rates, perCall, perSearch } = cost
      // Over 10^15.
      const exact =
        (BigInt(tokens.input) * rates.input +
          BigInt(tokens.output) * rates.output +
          BigInt(tokens.cacheRead) * rates.cacheRead +
          BigInt(tokens.cacheWrite) * rates.cacheWrite +
          1_000_000n * (perCall + BigInt(searches) * perSearch)) *
        exchange
      const told = costOf({ tokens, searches }, cost, exchange)
      fc.pre(told < largestCost)
      expect(told * 10n ** 15n).toBeGreaterThanOrEqual(exact)
      if (cost.rounding === "none") expect((told - 1n) * 10n ** 15n).toBeLessThan(exact)
    }),
  )
})

test("more tokens, a dearer rate, a coarser step or a dearer currency never cost less", () => {
  fc.assert(
    fc.property(tokens, tokens, cost, exchange, exchange, (some, more, cost, one, other) => {
      const all = {
        input: some.input + more.input,
        cacheRead: some.cacheRead + more.cacheRead,
        cacheWrite: some.cacheWrite + more.cacheWrite,
        output: some.output + more.output,
      }
      const of = (tokens: typeof some, by = cost, rate = one) => costOf({ tokens, searches: 0 }, by, rate)
      expect(of(all)).toBeGreaterThanOrEqual(of(some))
      expect(of(some, { ...cost, perCall: cost.perCall + 1n })).toBeGreaterThanOrEqual(of(some))
      expect(of(some, { ...cost, step: cost.step * 10n })).toBeGreaterThanOrEqual(of(some))
      expect(of(some, cost, one > other ? one : other)).toBeGreaterThanOrEqual(of(some))
    }),
  )
})

test("rounding each bucket never bills less than rounding the call, and that never less than not rounding", () => {
  fc.assert(
    fc.property(tokens, cost, exchange, searches, (tokens, cost, exchange, searches) => {
      const by = (rounding: Cost["rounding"]) => costOf({ tokens, searches }, { ...cost, rounding }, exchange)
      expect(by("per_bucket")).toBeGreaterThanOrEqual(by("per_call"))
      expect(by("per_call")).toBeGreaterThanOrEqual(by("none"))
    }),
  )
})

test("counts without sense cost an amount that can be stored, and eight such amounts can be said", () => {
  expect(largestMicro / largestCost).toBe(8n)
  const most = Number.MAX_SAFE_INTEGER
  const senseless = { input: most, cacheRead: most, cacheWrite: most, output: most }
  expect(costOf({ tokens: senseless, searches: most }, plain, rupiah("16000"))).toBe(largestCost)
})

test("a decimal is read whole or not at all, whatever its digits", () => {
  expect(parseDecimal("2.5", 9)).toBe(2_500_000_000n)
  expect(parseDecimal(0.1, 9)).toBe(100_000_000n)
  expect(parseDecimal(1e-7, 9)).toBe(100n)
  expect(parseDecimal(1e21, 9)).toBe(10n ** 30n)
  expect(parseDecimal("2.500000000000", 9)).toBe(2_500_000_000n)
  for (const wrong of [
    "",
    "-1",
    "+1",
    "1,5",
    ".5",
    "1.",
    "0x10",
    "1e400",
    "NaN",
    "Infinity",
    " 1",
    "1\n",
    "0.0000000001",
  ])
    expect(parseDecimal(wrong, 9)).toBeUndefined()
  fc.assert(
    fc.property(fc.bigInt(0n, 10n ** 30n), fc.nat(12), (value, digits) => {
      const text = value.toString().padStart(digits + 1, "0")
      const written = digits === 0 ? text : `${text.slice(0, -digits)}.${text.slice(-digits)}`
      expect(parseDecimal(written, digits)).toBe(value)
    }),
  )
})
