import { expect, test } from "bun:test"
import { Calibration } from "../../src/gateway/input-estimate.ts"

test("a model that nothing is known of is estimated as it is", () => {
  expect(new Calibration().factor("acc", "a")).toBe(1)
})

test("a model whose backend counts more than the estimate is estimated higher, and others are not", () => {
  const calibration = new Calibration()
  for (let call = 0; call < 200; call++) calibration.learn("acc", "a", 1_000, call % 2 === 0 ? 1_300 : 1_500)
  expect(calibration.factor("acc", "a")).toBeWithin(1.35, 1.45)
  expect(calibration.factor("acc", "b")).toBe(1)
})

test("an estimate is never lowered, and never raised by more than 60 %", () => {
  const calibration = new Calibration()
  calibration.learn("acc", "low", 1_000, 10)
  calibration.learn("acc", "high", 1_000, 1_000_000)
  expect([calibration.factor("acc", "low"), calibration.factor("acc", "high")]).toEqual([1, 1.6])
})

test("short prompts and missing counts teach nothing", () => {
  const calibration = new Calibration()
  calibration.learn("acc", "a", 100, 1_000)
  calibration.learn("acc", "a", 10_000, 0)
  expect(calibration.factor("acc", "a")).toBe(1)
  calibration.learn("acc", "b", 10_000, 15_000)
  calibration.learn("acc", "b", 10_000, 0)
  expect(calibration.factor("acc", "b")).toBe(1.5)
})

test("one odd count moves the mean of many by little", () => {
  const calibration = new Calibration()
  for (let call = 0; call < 100; call++) calibration.learn("acc", "a", 1_000, 1_000)
  calibration.learn("acc", "a", 1_000, 100_000)
  expect(calibration.factor("acc", "a")).toBeLessThan(1.04)
})

const factors = (calibration: Calibration, ...accounts: string[]) =>
  accounts.map((account) => calibration.factor(account, "m"))

test("what one account sends raises its own estimates, and nobody else's", () => {
  const calibration = new Calibration()
  const strange = () => {
    for (let call = 0; call < 200; call++) calibration.learn("strange", "m", 1_000, 4_000)
  }
  strange()
  expect(factors(calibration, "strange", "other")).toEqual([1.6, 1])
  calibration.learn("one", "m", 1_000, 1_100)
  expect(factors(calibration, "strange", "one", "other")).toEqual([1.6, 1.1, 1.1])
  calibration.learn("two", "m", 1_000, 1_200)
  strange()
  expect(factors(calibration, "strange", "one", "two", "other")).toEqual([1.6, 1.2, 1.2, 1.2])
  calibration.learn("three", "m", 1_000, 1_000)
  expect(factors(calibration, "strange", "one", "two", "three", "other")).toEqual([1.6, 1.1, 1.2, 1.1, 1.1])
})

test("a model whose texts come to more for most accounts is estimated higher for those that are new", () => {
  const calibration = new Calibration()
  for (let account = 0; account < 9; account++) calibration.learn(`acc-${account}`, "m", 1_000, 1_300 + 10 * account)
  expect(factors(calibration, "new", "acc-0", "acc-8")).toEqual([1.34, 1.34, 1.38])
})

test("of 128 accounts a model's means are kept, and of those that called last", () => {
  const calibration = new Calibration()
  calibration.learn("first", "m", 1_000, 1_600)
  calibration.learn("second", "m", 1_000, 1_500)
  for (let account = 0; account < 126; account++) calibration.learn(`acc-${account}`, "m", 1_000, 1_000)
  expect(factors(calibration, "first", "second")).toEqual([1.6, 1.5])
  calibration.learn("first", "m", 1_000, 1_600)
  calibration.learn("late", "m", 1_000, 1_000)
  expect(factors(calibration, "first", "second", "acc-0")).toEqual([1.6, 1, 1])
})
