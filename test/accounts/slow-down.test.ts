import { expect, test } from "bun:test"
import { type Attempt, SlowDown, slowDownTerms } from "../../src/accounts/slow-down.ts"
import { Failure } from "../../src/failure/failure.ts"

/** Time that passes only by waiting. */
function slowed(terms: Partial<typeof slowDownTerms> = {}) {
  const clock = { now: 1_000_000 }
  const waits: number[] = []
  const slowDown = new SlowDown(
    { ...slowDownTerms, ...terms },
    () => clock.now,
    async (ms) => {
      waits.push(ms)
      clock.now += ms
    },
  )
  return { slowDown, clock, waits }
}

test("the first five failures of an account wait for nothing, then each waits twice as long, up to four seconds", async () => {
  const { slowDown, waits } = slowed()
  for (let n = 0; n < 12; n++) await slowDown.attempt("account", "address")
  expect(waits).toEqual([250, 500, 1_000, 2_000, 4_000, 4_000, 4_000])
})

test("a success forgives the account", async () => {
  const { slowDown, waits } = slowed()
  for (let n = 0; n < 6; n++) await slowDown.attempt("account", "address")
  const attempt = await slowDown.attempt("account", "address")
  ;(attempt as Attempt).succeeded()
  waits.length = 0
  await slowDown.attempt("account", "address")
  expect(waits).toEqual([])
})

test("an attempt that was not judged counts for nothing", async () => {
  const { slowDown, waits } = slowed()
  for (let n = 0; n < 20; n++) ((await slowDown.attempt("account", "address")) as Attempt).unjudged()
  expect(waits).toEqual([])
})

test("an address is slowed down whatever accounts it tries, another address is not", async () => {
  const { slowDown, waits } = slowed()
  for (let n = 0; n < 50; n++) await slowDown.attempt(`account ${n}`, "192.0.2.1")
  expect(waits).toEqual([])
  await slowDown.attempt("one more", "192.0.2.1")
  expect(waits).toEqual([250])
  await slowDown.attempt("yet another", "192.0.2.2")
  expect(waits).toEqual([250])
})

test("addresses of one IPv6 network of 64 bits count as one", async () => {
  const { slowDown, waits } = slowed({ freePerAddress: 2 })
  for (const address of ["2001:db8:0:1::1", "2001:db8::1:0:0:0:2", "2001:db8:0:1:ffff::"])
    await slowDown.attempt(address, address)
  expect(waits).toEqual([250])
  await slowDown.attempt("elsewhere", "2001:db8:0:2::1")
  expect(waits).toEqual([250])
})

test("of a crowd at one account a few wait in line, and the rest are turned away with a Retry-After", async () => {
  const { clock, waits } = slowed()
  const slowDown = new SlowDown(
    slowDownTerms,
    () => clock.now,
    async (ms) => void waits.push(ms),
  )
  const outcomes = await Promise.all(Array.from({ length: 100 }, () => slowDown.attempt("account", "address")))
  expect(waits).toEqual([250, 750, 1_750, 3_750, 7_750])
  const refused = outcomes.filter((outcome) => outcome instanceof Failure)
  expect(refused).toHaveLength(90)
  expect(refused[0]).toMatchObject({ code: "auth.unauthorized", detail: { retryAfterS: 12 } })
})

test("after a quarter of an hour of peace all is forgotten", async () => {
  const { slowDown, clock, waits } = slowed()
  for (let n = 0; n < 7; n++) await slowDown.attempt("account", "address")
  clock.now += slowDownTerms.memoryMs + 1
  waits.length = 0
  await slowDown.attempt("account", "address")
  expect(waits).toEqual([])
})

test("only so many accounts are remembered, the oldest is forgotten first", async () => {
  const { slowDown, waits } = slowed({ remembered: 2, freePerAddress: 1_000 })
  for (let n = 0; n < 5; n++) await slowDown.attempt("first", "address")
  for (const account of ["second", "third"]) await slowDown.attempt(account, "address")
  await slowDown.attempt("first", "address")
  expect(waits).toEqual([])
})
