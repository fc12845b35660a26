/** Whatever becomes of a lease's statement, the purse that began it hears of it once. */
import { expect, test } from "bun:test"
import type { LeaseNews } from "../../actors/lease.ts"
import { type Micro, micro, zero } from "../../actors/money/micro.ts"
import { leaseDriver, type LeaseStatements } from "../../src/gateway/lease-driver.ts"

const lease = { granted: micro(700n), returned: micro(100n), settled: zero, version: 3 }

/** A driver whose statements are written down, with the news that they end in. */
function driver(statements: Partial<LeaseStatements>) {
  const steps: string[] = []
  const news: LeaseNews[] = []
  const failures: string[] = []
  const { promise: heard, resolve } = Promise.withResolvers<void>()
  return {
    steps,
    news,
    failures,
    heard,
    ...leaseDriver({
      what: "account",
      async grow(short: Micro, version: number) {
        steps.push(`grow ${short} of version ${version}`)
        return { lease, more: true }
      },
      async giveBack(returned: Micro) {
        steps.push(`give back ${returned}`)
        return lease
      },
      written: async () => void steps.push("written"),
      tell(said) {
        news.push(said)
        resolve()
      },
      failed: (what, error) => failures.push(`${what}: ${String(error)}`),
      ...statements,
    }),
  }
}

const fails = async () => {
  throw new Error("away")
}

test("a growth tells what the lease is, and what else there is of a budget", async () => {
  const { grow, steps, news, heard } = driver({})
  grow(micro(500n), 2)
  await heard
  expect(steps).toEqual(["grow 500 of version 2"])
  expect(news).toEqual([{ type: "grown", lease, more: true }])

  const budget = driver({ grow: async () => ({ lease, more: false, elsewhere: micro(9n) }) })
  budget.grow(zero, 0)
  await budget.heard
  expect(budget.news).toEqual([{ type: "grown", lease, more: false, elsewhere: micro(9n) }])
})

test("a growth that fails has not grown, and is logged", async () => {
  const { grow, news, failures, heard } = driver({ grow: fails })
  grow(micro(500n), 2)
  await heard
  expect(news).toEqual([{ type: "not-grown" }])
  expect(failures).toEqual(["account not grown: Error: away"])
})

test("a return tells what the lease is, and does not wait for the ledger", async () => {
  const { giveBack, steps, news, heard } = driver({})
  giveBack(micro(100n), false)
  await heard
  expect(steps).toEqual(["give back 100"])
  expect(news).toEqual([{ type: "returned", lease }])
})

test("a return that recounts waits until all is written", async () => {
  const written = Promise.withResolvers<void>()
  const { giveBack, steps, news, heard } = driver({ written: () => written.promise })
  giveBack(micro(100n), true)
  await Bun.sleep(1)
  expect(steps).toEqual([])
  written.resolve()
  await heard
  expect(steps).toEqual(["give back 100"])
  expect(news).toEqual([{ type: "returned", lease }])
})

test("a return is not carried out when the ledger is behind", async () => {
  const { giveBack, steps, news, failures, heard } = driver({ written: fails })
  giveBack(micro(100n), true)
  await heard
  expect(steps).toEqual([])
  expect(news).toEqual([{ type: "not-returned" }])
  expect(failures).toEqual(["account not given back: Error: away"])
})

test("a lease that is not there any more is not returned, and that is no error", async () => {
  const { giveBack, news, failures, heard } = driver({ giveBack: async () => undefined })
  giveBack(micro(100n), false)
  await heard
  expect(news).toEqual([{ type: "not-returned" }])
  expect(failures).toEqual([])
})
