import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { bounded, type CountBounds, price, type Rates, totalTokens } from "../../actors/money/price.ts"
import { larger, largestMicro, micro, zero } from "../../actors/money/micro.ts"

const count = fc.oneof(fc.nat(2_000), fc.nat(3_000_000), fc.maxSafeNat())
const tokens = fc.record({ input: count, cacheRead: count, cacheWrite: count, output: count })
const rate = fc.oneof(fc.nat(5_000), fc.nat(2_000_000_000)).map((value) => micro(BigInt(value)))
const rates: fc.Arbitrary<Rates> = fc.record({ input: rate, cacheRead: rate, cacheWrite: rate, output: rate })
const bounds: fc.Arbitrary<CountBounds> = fc.record({
  contextWindow: fc.oneof(fc.constant(null), fc.integer({ min: 1, max: 1_100_000 })),
  answerLimit: fc.integer({ min: 1, max: 128_000 }),
  choices: fc.integer({ min: 1, max: 128 }),
})

test("what is charged and what is over add up to what was counted, as far as a price can be said", () => {
  fc.assert(
    fc.property(tokens, bounds, rates, (counted, bounds, rates) => {
      const { tokens, excess } = bounded(counted, bounds, rates)
      const all = price(counted, rates)
      const charged = price(tokens, rates)
      expect(charged + excess).toBeLessThanOrEqual(all)
      if (all <= largestMicro / 8n) expect(charged + excess).toBe(all)
      expect(excess).toBeLessThanOrEqual(largestMicro / 8n)
    }),
  )
})

test("no bucket grows, input fits the window, and output the limit of each answer", () => {
  fc.assert(
    fc.property(tokens, bounds, rates, (counted, bounds, rates) => {
      const { tokens } = bounded(counted, bounds, rates)
      for (const bucket of ["input", "cacheRead", "cacheWrite", "output"] as const) {
        expect(tokens[bucket]).toBeLessThanOrEqual(counted[bucket])
        expect(tokens[bucket]).toBeGreaterThanOrEqual(0)
      }
      expect(totalTokens(tokens) - tokens.output).toBeLessThanOrEqual(bounds.contextWindow ?? Number.MAX_SAFE_INTEGER)
      expect(tokens.output).toBeLessThanOrEqual(bounds.answerLimit * bounds.choices)
    }),
  )
})

test("no more is cut than has to be: one token more would not fit, or be more than a price can say", () => {
  fc.assert(
    fc.property(tokens, bounds, rates, (counted, bounds, rates) => {
      const { tokens } = bounded(counted, bounds, rates)
      const input = totalTokens(tokens) - tokens.output
      const dearest = larger(rates.input, larger(rates.cacheRead, rates.cacheWrite))
      const fits = (count: number) =>
        count <= (bounds.contextWindow ?? Number.MAX_SAFE_INTEGER) && BigInt(count) * dearest <= largestMicro / 8n
      expect(fits(input)).toBe(true)
      if (input < counted.input + counted.cacheRead + counted.cacheWrite) expect(fits(input + 1)).toBe(false)
      if (tokens.output < counted.output) expect(tokens.output).toBe(bounds.answerLimit * bounds.choices)
    }),
  )
})

test("a model whose input is free is bounded by its window alone, and without one by nothing", () => {
  const free = { input: zero, cacheRead: zero, cacheWrite: zero, output: micro(1n) }
  const counted = { input: Number.MAX_SAFE_INTEGER, cacheRead: 0, cacheWrite: 0, output: 1 }
  const cut = (contextWindow: number | null) => bounded(counted, { contextWindow, answerLimit: 1, choices: 1 }, free)
  expect(cut(null)).toEqual({ tokens: counted, excess: zero })
  expect(cut(1_000)).toEqual({ tokens: { ...counted, input: 1_000 }, excess: zero })
})

test("counts within their bounds are charged as they are", () => {
  const rates = { input: micro(1n), cacheRead: micro(1n), cacheWrite: micro(1n), output: micro(1n) }
  const counted = { input: 300, cacheRead: 600, cacheWrite: 100, output: 160 }
  expect(bounded(counted, { contextWindow: 1_000, answerLimit: 8, choices: 20 }, rates)).toEqual({
    tokens: counted,
    excess: micro(0n),
  })
})

test("of too much input the writes to a cache are cut first, then what no cache knew, then the reads", () => {
  const rates = { input: micro(1n), cacheRead: micro(1n), cacheWrite: micro(1n), output: micro(1n) }
  const cut = (contextWindow: number) =>
    bounded(
      { input: 30, cacheRead: 20, cacheWrite: 10, output: 0 },
      { contextWindow, answerLimit: 1, choices: 1 },
      rates,
    ).tokens
  expect(cut(55)).toEqual({ input: 30, cacheRead: 20, cacheWrite: 5, output: 0 })
  expect(cut(45)).toEqual({ input: 25, cacheRead: 20, cacheWrite: 0, output: 0 })
  expect(cut(15)).toEqual({ input: 0, cacheRead: 15, cacheWrite: 0, output: 0 })
})
