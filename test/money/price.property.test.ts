import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import {
  larger,
  type Micro,
  micro,
  microToJson,
  microToRupiah,
  smaller,
  sumToJson,
  zero,
} from "../../actors/money/micro.ts"
import {
  affordableLimit,
  furtherLimit,
  holdFrom,
  inForce,
  noTokens,
  price,
  quote,
  type Rates,
  type Tokens,
  totalTokens,
} from "../../actors/money/price.ts"

const amount = (max: bigint): fc.Arbitrary<Micro> => fc.bigInt({ min: 0n, max }).map(micro)
const rate = fc.oneof(fc.constant(zero), amount(5_000_000n))
const count = fc.oneof(fc.nat(100), fc.nat(2_000_000))
const rates: fc.Arbitrary<Rates> = fc.record({ input: rate, output: rate, cacheRead: rate, cacheWrite: rate })
const tokens: fc.Arbitrary<Tokens> = fc.record({ input: count, output: count, cacheRead: count, cacheWrite: count })
const terms = fc.record({
  inputTokens: count,
  clientLimit: fc.option(fc.integer({ min: 1, max: 200_000 }), { nil: undefined }),
  modelLimit: fc.integer({ min: 1, max: 128_000 }),
  choices: fc.integer({ min: 1, max: 8 }),
  rates,
})
const money = fc.oneof(amount(1_000n), amount(10n ** 15n))

describe("a price", () => {
  test("is never negative, and is zero only where every token there is is free", () => {
    fc.assert(
      fc.property(tokens, rates, (of, at) => {
        const total = price(of, at)
        const priced = (["input", "output", "cacheRead", "cacheWrite"] as const).some((b) => of[b] > 0 && at[b] > 0n)
        expect(total >= 0n).toBe(true)
        expect(total > 0n).toBe(priced)
      }),
    )
  })

  test("is additive over tokens: a call in two parts costs what it costs in one", () => {
    fc.assert(
      fc.property(tokens, tokens, rates, (a, b, at) => {
        const both = {
          input: a.input + b.input,
          output: a.output + b.output,
          cacheRead: a.cacheRead + b.cacheRead,
          cacheWrite: a.cacheWrite + b.cacheWrite,
        }
        expect(price(both, at)).toBe(micro(price(a, at) + price(b, at)))
      }),
    )
  })

  test("is exact where a float would not be", () => {
    const at = { input: micro(9_007_199n), output: zero, cacheRead: zero, cacheWrite: zero }
    const of = { input: 1_000_000_001, output: 0, cacheRead: 0, cacheWrite: 0 }
    expect(price(of, at)).toBe(micro(9_007_199_009_007_199n))
  })

  test("is at the version in force: the latest that has begun, whatever order they are in", () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat(100), { maxLength: 8 }), fc.nat(110), (starts, at) => {
        const expected = Math.max(-1, ...starts.filter((start) => start <= at))
        expect(
          inForce(
            starts.map((effectiveAt) => ({ effectiveAt })),
            at,
          )?.effectiveAt ?? -1,
        ).toBe(expected)
      }),
    )
  })
})

describe("a hold", () => {
  test("covers the charge wherever the estimate held and the forwarded limit was obeyed, cached input included", () => {
    const shares = fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.double({ min: 0, max: 1, noNaN: true }))
    fc.assert(
      fc.property(terms, money, shares, fc.double({ min: 0, max: 1, noNaN: true }), (of, available, [a, b], c) => {
        const quoted = quote(of)
        const hold = holdFrom(available, quoted.worst, quoted.least)
        fc.pre(hold !== undefined)
        const limit = affordableLimit(hold, quoted)
        const cacheRead = Math.floor(of.inputTokens * a)
        const cacheWrite = Math.floor((of.inputTokens - cacheRead) * b)
        const used: Tokens = {
          cacheRead,
          cacheWrite,
          input: of.inputTokens - cacheRead - cacheWrite,
          output: Math.floor(limit * of.choices * c),
        }
        expect(price(used, of.rates) <= hold).toBe(true)
      }),
      { numRuns: 500 },
    )
  })

  test("pays for its answer limit and not for one token more, which is never under the minimal answer", () => {
    fc.assert(
      fc.property(terms, money, (of, available) => {
        const quoted = quote(of)
        const hold = holdFrom(available, quoted.worst, quoted.least)
        fc.pre(hold !== undefined)
        const limit = affordableLimit(hold, quoted)
        expect(BigInt(limit) * quoted.perAnswerToken + quoted.input <= hold).toBe(true)
        expect(limit * of.choices).toBeGreaterThanOrEqual(quoted.minimalTokens)
        expect(limit).toBeLessThanOrEqual(Math.min(of.clientLimit ?? of.modelLimit, of.modelLimit))
        if (limit < quoted.answerLimit)
          expect(BigInt(limit + 1) * quoted.perAnswerToken + quoted.input > hold).toBe(true)
      }),
      { numRuns: 500 },
    )
  })

  test("is the worst case up to half of what is available, else half but at least the least, else nothing", () => {
    fc.assert(
      fc.property(terms, money, (of, available) => {
        const { least, worst } = quote(of)
        expect(least <= worst).toBe(true)
        const hold = holdFrom(available, worst, least)
        expect(hold === undefined).toBe(available < least)
        if (hold === undefined) return
        expect(hold <= available && hold >= least && hold <= worst).toBe(true)
        if (worst * 2n <= available) expect(hold).toBe(worst)
        else expect(hold).toBe(larger(micro(available / 2n), least))
      }),
      { numRuns: 500 },
    )
  })

  test("taken of a budget and then of a balance is what one hold of the smaller of the two is", () => {
    fc.assert(
      fc.property(money, money, money, money, (budget, balance, a, b) => {
        const least = smaller(a, b)
        const worst = a < b ? b : a
        const ofBudget = holdFrom(budget, worst, least)
        const ofBoth = ofBudget && holdFrom(balance, ofBudget, least)
        expect(ofBoth).toBe(holdFrom(smaller(budget, balance), worst, least))
      }),
      { numRuns: 1_000 },
    )
  })
})

describe("a quote", () => {
  const rates: Rates = { input: micro(3n), output: micro(5n), cacheRead: micro(1n), cacheWrite: micro(4n) }
  const of = { inputTokens: 100, mostInputTokens: 150, clientLimit: 40, modelLimit: 1_000, choices: 2, rates }

  test("is what a hand comes to: input at its dearest rate, sixteen tokens at the least, the most input in the worst case", () => {
    expect(quote(of)).toEqual({
      input: micro(400n),
      least: micro(400n + 32n * 5n),
      worst: micro(600n + 80n * 5n),
      perAnswerToken: micro(10n),
      answerLimit: 40,
      minimalTokens: 32,
    })
    expect(quote({ ...of, mostInputTokens: 50 }).worst).toBe(micro(400n + 80n * 5n))
    // Three turns read the prompt, two of them an answer, one what the first has added and one what both have.
    const readInLoop = 3n * 150n + 2n * 40n + (1n + 2n) * 7n
    expect(quote({ ...of, loop: { turns: 3, addedTokens: 7 } }).worst).toBe(micro(readInLoop * 4n + 80n * 5n))
  })

  test("of a further turn is met by a hold that still pays for a minimal answer, and by none that is smaller", () => {
    const spent: Tokens = { input: 1, output: 2, cacheRead: 3, cacheWrite: 4 }
    const needed = price(spent, rates) + quote(of).least
    expect(furtherLimit(micro(needed), spent, of)).toBe(16)
    expect(furtherLimit(micro(needed - 1n), spent, of)).toBeUndefined()
    expect(furtherLimit(zero, spent, of)).toBeUndefined()
  })
})

test("all tokens of a call are those of its four buckets", () => {
  expect(totalTokens({ input: 1, output: 20, cacheRead: 300, cacheWrite: 4_000 })).toBe(4_321)
})

describe("a loop of turns", () => {
  const share = fc.double({ min: 0, max: 1, noNaN: true })
  const single = terms.map((of) => ({ ...of, choices: 1 }))

  test("never costs more than its hold, whatever of its limits each turn uses, and each turn can answer something", () => {
    const added = fc.array(fc.tuple(count, share), { minLength: 4, maxLength: 4 })
    fc.assert(
      fc.property(single, money, fc.nat(20_000), share, added, (of, available, addedTokens, first, later) => {
        const quoted = quote({ ...of, loop: { turns: 5, addedTokens } })
        const hold = holdFrom(available, quoted.worst, quoted.least)
        fc.pre(hold !== undefined)
        let spent: Tokens = {
          ...noTokens,
          input: of.inputTokens,
          output: Math.floor(affordableLimit(hold, quoted) * first),
        }
        let { inputTokens } = of
        for (const [found, used] of later) {
          const clientLimit = quoted.answerLimit - spent.output
          if (clientLimit < 1) break
          inputTokens += found
          const limit = furtherLimit(hold, spent, { ...of, inputTokens, clientLimit })
          if (limit === undefined) break
          expect(limit).toBeGreaterThanOrEqual(1)
          expect(limit).toBeLessThanOrEqual(clientLimit)
          spent = { ...spent, input: spent.input + inputTokens, output: spent.output + Math.floor(limit * used) }
        }
        expect(price(spent, of.rates) <= hold).toBe(true)
        expect(spent.output).toBeLessThanOrEqual(quoted.answerLimit)
      }),
      { numRuns: 500 },
    )
  })

  test("is held for in full when all is used of what it may: the least is that of one turn", () => {
    fc.assert(
      fc.property(single, fc.nat(20_000), (of, addedTokens) => {
        const one = quote(of)
        const five = quote({ ...of, loop: { turns: 5, addedTokens } })
        expect(five.least).toBe(one.least)
        // All of the answer in the first turn, which every later one reads again, and what each turn adds.
        const input = [0, 1, 2, 3, 4].reduce(
          (sum, turn) => sum + of.inputTokens + turn * addedTokens + (turn > 0 ? one.answerLimit : 0),
          0,
        )
        const used: Tokens = { ...noTokens, input, output: one.answerLimit }
        expect(price(used, of.rates) <= five.worst).toBe(true)
        expect(quote({ ...of, loop: { turns: 1, addedTokens } }).worst).toBe(one.worst)
      }),
    )
  })
})

describe("an amount", () => {
  test("in rupiah is exact: read back, it is the same amount, and ends in no zero", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(10n ** 18n), max: 10n ** 18n }), (value) => {
        const text = microToRupiah(micro(value))
        expect(text).toMatch(/^-?\d+(\.\d{0,5}[1-9])?$/)
        const [whole = "", fraction = ""] = text.replace("-", "").split(".")
        const absolute = BigInt(whole) * 1_000_000n + BigInt(fraction.padEnd(6, "0"))
        expect(text.startsWith("-") ? -absolute : absolute).toBe(value)
      }),
    )
    expect([1_234_500n, 0n, -1n].map((value) => microToRupiah(micro(value)))).toEqual(["1.2345", "0", "-0.000001"])
  })

  test("past 2^53 − 1 is thrown at the JSON edge rather than rounded", () => {
    expect(microToJson(micro(2n ** 53n - 1n))).toBe(Number.MAX_SAFE_INTEGER)
    expect(() => microToJson(micro(2n ** 53n))).toThrow(RangeError)
    expect([2n ** 53n, -(2n ** 60n), -5n].map((sum) => sumToJson(micro(sum)))).toEqual([
      2 ** 53 - 1,
      -(2 ** 53 - 1),
      -5,
    ])
  })
})
