import { beforeEach, expect, test } from "bun:test"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { type EstimateFactor, EstimateFactors, type EstimateFactorStore } from "../../src/gateway/input-estimate.ts"

let clock: VirtualClock
let rows: EstimateFactor[]
let store: EstimateFactorStore
let factors: EstimateFactors
const week = 7 * 86_400_000

beforeEach(() => {
  clock = new VirtualClock()
  rows = []
  store = {
    read: async (accountId) => rows.filter((row) => row.accountId === accountId),
    write: async (row) => void rows.push(row),
  }
  factors = new EstimateFactors(clock, store)
})

test("what was learnt is for that account, that model and that part", () => {
  factors.learn("a", "m", "documents", 300)
  expect(factors.known("a", "m")).toEqual({ texts: 1, documents: 300 })
  expect(factors.known("a", "other")).toEqual({ texts: 1, documents: 1 })
  expect(factors.known("b", "m")).toEqual({ texts: 1, documents: 1 })
})

test("half of it is forgotten in a week, whatever else is learnt meanwhile", () => {
  factors.learn("a", "m", "documents", 301)
  clock.advance(week)
  factors.learn("a", "m", "documents", 2)
  expect(factors.known("a", "m").documents).toBeCloseTo(151)
  clock.advance(10 * week)
  expect(factors.known("a", "m").documents).toBeLessThan(1.2)
})

test("texts are multiplied by four at most, documents by a thousand", () => {
  factors.learn("a", "m", "texts", 50)
  factors.learn("a", "m", "documents", 50_000)
  expect(factors.known("a", "m")).toEqual({ texts: 4, documents: 1_000 })
})

test("a restart, and a neighbour within half a minute, know it", async () => {
  const neighbour = new EstimateFactors(clock, store)
  expect((await neighbour.read("a", "m")).documents).toBe(1)
  factors.learn("a", "m", "documents", 300)
  clock.advance(30_001)
  expect((await neighbour.read("a", "m")).documents).toBeCloseTo(300, 1)
  expect((await new EstimateFactors(clock, store).read("a", "m")).documents).toBeCloseTo(300, 1)
})

test("a database that does not answer leaves what is known here", async () => {
  factors.learn("a", "m", "documents", 300)
  store.read = async () => await Promise.reject(new Error("away"))
  expect((await factors.read("a", "m")).documents).toBe(300)
  expect((await factors.read("b", "m")).documents).toBe(1)
})

test("ten thousand accounts are remembered, those that were asked for last", () => {
  factors.learn("first", "m", "documents", 9)
  factors.learn("second", "m", "documents", 9)
  factors.known("first", "m")
  rows = []
  for (let n = 0; n < 9_999; n++) factors.known(`a${n}`, "m")
  expect(factors.known("first", "m").documents).toBe(9)
  expect(factors.known("second", "m").documents).toBe(1)
})

test("a call without documents waits for no database, and the next one knows what that has", async () => {
  rows = [{ accountId: "a", model: "m", part: "texts", factor: 3, learntAt: clock.now() }]
  expect(factors.known("a", "m").texts).toBe(1)
  await Bun.sleep(0)
  expect(factors.known("a", "m").texts).toBe(3)
})

test("the database is asked once in half a minute for an account, however many ask at once", async () => {
  let reads = 0
  store.read = async () => {
    reads++
    return []
  }
  await Promise.all([factors.read("a", "m"), factors.read("a", "other")])
  factors.known("a", "m")
  await factors.read("a", "m")
  expect(reads).toBe(1)
  clock.advance(30_000)
  await factors.read("a", "m")
  expect(reads).toBe(2)
})

test("what is known here is not lowered by what the database has", async () => {
  factors.learn("a", "m", "documents", 300)
  rows = [{ accountId: "a", model: "m", part: "documents", factor: 2, learntAt: clock.now() }]
  expect((await factors.read("a", "m")).documents).toBe(300)
})
