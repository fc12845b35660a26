import { expect, test } from "bun:test"
import { Calibration } from "../../src/gateway/input-estimate.ts"

test("a model that nothing is known of is estimated as it is", () => {
  expect(new Calibration().factor("a")).toBe(1)
})

test("a model whose backend counts more than the estimate is estimated higher, and others are not", () => {
  const calibration = new Calibration()
  for (let call = 0; call < 200; call++) calibration.learn("a", 1_000, call % 2 === 0 ? 1_300 : 1_500)
  expect(calibration.factor("a")).toBeWithin(1.35, 1.45)
  expect(calibration.factor("b")).toBe(1)
})

test("an estimate is never lowered, and never raised by more than 60 %", () => {
  const calibration = new Calibration()
  calibration.learn("low", 1_000, 10)
  calibration.learn("high", 1_000, 1_000_000)
  expect([calibration.factor("low"), calibration.factor("high")]).toEqual([1, 1.6])
})

test("short prompts and missing counts teach nothing", () => {
  const calibration = new Calibration()
  calibration.learn("a", 100, 1_000)
  calibration.learn("a", 10_000, 0)
  expect(calibration.factor("a")).toBe(1)
  calibration.learn("b", 10_000, 15_000)
  calibration.learn("b", 10_000, 0)
  expect(calibration.factor("b")).toBe(1.5)
})

test("one odd count moves the mean of many by little", () => {
  const calibration = new Calibration()
  for (let call = 0; call < 100; call++) calibration.learn("a", 1_000, 1_000)
  calibration.learn("a", 1_000, 100_000)
  expect(calibration.factor("a")).toBeLessThan(1.04)
})
