import { expect, setSystemTime, test } from "bun:test"
import { type Attempt, PasswordThrottle, SignUpLimiter, throttleLimits } from "../../src/accounts/rate-limits.ts"
import { Failure } from "../../src/failure/failure.ts"

/** Time that passes only by waiting. */
function slowed(terms: Partial<typeof throttleLimits> = {}) {
  const clock = { now: 1_000_000 }
  const waits: number[] = []
  const slowDown = new PasswordThrottle(
    { ...throttleLimits, ...terms },
    () => clock.now,
    async (ms) => {
      waits.push(ms)
      clock.now += ms
    },
  )
  const attempt = (account = "account", address = "192.0.2.1", isKnown = false) =>
    slowDown.attempt({ account, address, isKnown })
  return { attempt, clock, waits }
}

/** One that does not wait really, nor lets time pass. */
function crowd() {
  const waits: number[] = []
  const slowDown = new PasswordThrottle(
    throttleLimits,
    () => 1_000_000,
    async (ms) => void waits.push(ms),
  )
  return { slowDown, waits }
}

/** Of different networks. */
const address = (n: number) => `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`

test("the first five failures at an account wait for nothing, then each waits twice as long, up to four seconds", async () => {
  const { attempt, waits } = slowed()
  for (let n = 0; n < 12; n++) await attempt()
  expect(waits).toEqual([250, 500, 1_000, 2_000, 4_000, 4_000, 4_000])
})

test("failures from one network, however many, slow nobody down elsewhere", async () => {
  const { attempt, waits } = slowed()
  // An hour of a network that does nothing else.
  for (let n = 0; n < 900; n++) await attempt("account", "192.0.2.66")
  expect(waits.at(-1)).toBe(4_000)
  waits.length = 0
  for (let n = 0; n < 5; n++) await attempt("account", "192.0.2.1")
  expect(waits).toEqual([])
})

test("a crowd from one network does not turn away the owner at another", async () => {
  const { slowDown, waits } = crowd()
  const guess = { account: "account", isKnown: false }
  const guesses = Array.from({ length: 1_000 }, () => slowDown.attempt({ ...guess, address: "192.0.2.66" }))
  const refused = (await Promise.all(guesses)).filter((outcome) => outcome instanceof Failure)
  expect(refused).toHaveLength(990)
  waits.length = 0
  expect(await slowDown.attempt({ ...guess, address: "192.0.2.1" })).not.toBeInstanceOf(Failure)
  expect(waits).toEqual([])
})

test("guesses from a thousand networks meet the account's own wait, one in a second", async () => {
  const { slowDown, waits } = crowd()
  const guess = { account: "account", isKnown: false }
  const outcomes = await Promise.all(
    Array.from({ length: 1_000 }, (_, n) => slowDown.attempt({ ...guess, address: address(n) })),
  )
  const refused = outcomes.filter((outcome) => outcome instanceof Failure)
  expect(waits).toEqual([1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000, 8_000])
  expect(refused).toHaveLength(1_000 - 100 - 8)
  expect(refused[0]).toMatchObject({ code: "auth.unauthorized", detail: { retryAfterS: 9 } })
})

test("a network from which somebody signed in does not wait for the others, and is slowed down for its own failures", async () => {
  const { slowDown, waits } = crowd()
  for (let n = 0; n < 1_000; n++) await slowDown.attempt({ account: "account", address: address(n), isKnown: false })
  waits.length = 0
  const known = { account: "account", address: "192.0.2.1", isKnown: true }
  for (let n = 0; n < 5; n++) expect(await slowDown.attempt(known)).not.toBeInstanceOf(Failure)
  expect(waits).toEqual([])
  await slowDown.attempt(known)
  expect(waits).toEqual([250])
})

test("what is tried from a network of the owner's brings strangers no nearer to the account's own wait", async () => {
  const { slowDown, waits } = crowd()
  for (let n = 0; n < 200; n++) {
    const known = await slowDown.attempt({ account: "account", address: address(n), isKnown: true })
    if (n % 2 === 0) (known as Attempt).succeeded()
  }
  const stranger = (n: number) => slowDown.attempt({ account: "account", address: address(1_000 + n), isKnown: false })
  for (let n = 0; n < 100; n++) await stranger(n)
  expect(waits).toEqual([])
  // Nor further away.
  for (let n = 0; n < 50; n++) {
    const known = await slowDown.attempt({ account: "account", address: "192.0.2.1", isKnown: true })
    ;(known as Attempt).succeeded()
  }
  await stranger(100)
  expect(waits).toEqual([1_000])
})

test("an account that was guessed at by a crowd is at peace again after as many seconds", async () => {
  const { attempt, clock, waits } = slowed()
  for (let n = 0; n < 100; n++) await attempt("account", address(n))
  await attempt("account", address(100))
  expect(waits).toEqual([1_000])
  clock.now += 100_000
  for (let n = 101; n < 201; n++) await attempt("account", address(n))
  expect(waits).toEqual([1_000])
  // However long it was at peace, no more are free than at first.
  clock.now += 24 * 3_600_000
  for (let n = 201; n < 302; n++) await attempt("account", address(n))
  expect(waits).toEqual([1_000, 1_000])
})

test("a success forgives the account at its network", async () => {
  const { attempt, waits } = slowed()
  for (let n = 0; n < 6; n++) await attempt()
  const right = await attempt()
  ;(right as Attempt).succeeded()
  waits.length = 0
  await attempt()
  expect(waits).toEqual([])
})

test("right passwords from any number of networks never meet the account's own wait", async () => {
  const { slowDown, waits } = crowd()
  for (let n = 0; n < 500; n++) {
    const right = await slowDown.attempt({ account: "account", address: address(n), isKnown: false })
    ;(right as Attempt).succeeded()
  }
  expect(waits).toEqual([])
})

test("right passwords from one network, however many, slow nobody down there", async () => {
  const { slowDown, waits } = crowd()
  for (let n = 0; n < 500; n++) {
    const right = await slowDown.attempt({ account: `account ${n}`, address: "192.0.2.1", isKnown: true })
    ;(right as Attempt).succeeded()
  }
  expect(waits).toEqual([])
})

test("a right password at another account takes back none of a network's failures", async () => {
  const { slowDown, waits } = crowd()
  const guess = { address: "192.0.2.1", isKnown: false }
  for (let n = 0; n < 50; n++) {
    await slowDown.attempt({ ...guess, account: `account ${n}` })
    const right = await slowDown.attempt({ ...guess, account: "the guesser's own" })
    ;(right as Attempt).succeeded()
  }
  // A success waits for its turn too, before it is known to be one.
  waits.length = 0
  await slowDown.attempt({ ...guess, account: "one more" })
  expect(waits).not.toEqual([])
})

test("an attempt that was not judged forgives nothing", async () => {
  const { attempt, waits } = slowed()
  for (let n = 0; n < 4; n++) await attempt()
  for (let n = 0; n < 2; n++) ((await attempt()) as Attempt).notChecked()
  for (let n = 0; n < 2; n++) await attempt()
  expect(waits).toEqual([250])
})

test("an attempt that was not judged counts for nothing", async () => {
  const { attempt, waits } = slowed()
  for (let n = 0; n < 20; n++) ((await attempt()) as Attempt).notChecked()
  for (let n = 0; n < 200; n++) ((await attempt("account", address(n))) as Attempt).notChecked()
  expect(waits).toEqual([])
})

test("a network is slowed down whatever accounts it tries, another is not", async () => {
  const { attempt, waits } = slowed()
  for (let n = 0; n < 50; n++) await attempt(`account ${n}`, "192.0.2.1")
  expect(waits).toEqual([])
  await attempt("one more", "192.0.2.1")
  expect(waits).toEqual([250])
  await attempt("yet another", "192.0.2.2")
  expect(waits).toEqual([250])
})

test("of a crowd from one network at as many accounts a few wait in line, and the rest are turned away", async () => {
  const { slowDown, waits } = crowd()
  const guess = (n: number) => slowDown.attempt({ account: `account ${n}`, address: "192.0.2.1", isKnown: false })
  const outcomes = await Promise.all(Array.from({ length: 100 }, (_, n) => guess(n)))
  expect(waits).toEqual([250, 750, 1_750, 3_750, 7_750])
  expect(outcomes.filter((outcome) => outcome instanceof Failure)).toHaveLength(45)
})

test("addresses of one IPv6 network of 64 bits count as one, however they are written", async () => {
  const { attempt, waits } = slowed({ freePerNetwork: 3 })
  for (const one of ["2001:db8:0:1::1", "2001:db8::1:0:0:0:2", "2001:DB8:0:01:ffff::", "2001:db8:0:1::%eth0"])
    await attempt(one, one)
  expect(waits).toEqual([250])
  await attempt("elsewhere", "2001:db8:0:2::1")
  expect(waits).toEqual([250])
})

test("of a crowd from one network at one account a few wait in line, and the rest are turned away with a Retry-After", async () => {
  const { slowDown, waits } = crowd()
  const guess = { account: "account", address: "192.0.2.1", isKnown: false }
  const outcomes = await Promise.all(Array.from({ length: 100 }, () => slowDown.attempt(guess)))
  expect(waits).toEqual([250, 750, 1_750, 3_750, 7_750])
  const refused = outcomes.filter((outcome) => outcome instanceof Failure)
  expect(refused).toHaveLength(90)
  expect(refused[0]).toMatchObject({ code: "auth.unauthorized", detail: { retryAfterS: 12 } })
})

test("after a quarter of an hour of peace all is forgotten", async () => {
  const { attempt, clock, waits } = slowed()
  for (let n = 0; n < 12; n++) await attempt()
  clock.now += throttleLimits.memoryMs + 1
  waits.length = 0
  await attempt()
  expect(waits).toEqual([])
})

test("who takes time between guesses waits for each all the same", async () => {
  const { attempt, clock, waits } = slowed()
  for (let n = 0; n < 12; n++) await attempt()
  waits.length = 0
  clock.now += 60_000
  await attempt()
  expect(waits).toEqual([4_000])
})

test("a failure that is nearly forgotten makes no room for more of them", async () => {
  const { attempt, clock, waits } = slowed()
  await attempt()
  clock.now += 0.9 * throttleLimits.memoryMs
  for (let n = 0; n < 6; n++) await attempt()
  expect(waits).toEqual([250])
})

test("a network from which somebody always signs in gets its failures forgotten, however many there were", async () => {
  const { attempt, clock, waits } = slowed()
  const signIn = async (n: number) => {
    const outcome = await attempt(`someone ${n}`, "192.0.2.1", true)
    if (!(outcome instanceof Failure)) outcome.succeeded()
  }
  for (let n = 0; n < 500; n++) await attempt(`account ${n}`, "192.0.2.1")
  expect(waits.at(-1)).toBe(4_000)
  // Sooner than they would be forgotten by themselves.
  for (let n = 0; n < 10; n++) {
    clock.now += 2 * 60_000
    await signIn(n)
  }
  waits.length = 0
  await signIn(10)
  expect(waits).toEqual([])
})

test("only so many are remembered, the one that was seen longest ago is forgotten first", async () => {
  const { attempt, waits } = slowed({ remembered: 2, freePerNetwork: 1_000 })
  for (let n = 0; n < 5; n++) await attempt("first")
  for (const account of ["second", "third"]) await attempt(account)
  await attempt("first")
  expect(waits).toEqual([])
})

test("who comes again is not the one that was seen longest ago", async () => {
  const { attempt, waits } = slowed({ remembered: 2, freePerNetwork: 1_000 })
  for (let n = 0; n < 5; n++) await attempt("first")
  await attempt("second")
  await attempt("first")
  await attempt("third")
  await attempt("first")
  expect(waits).toEqual([250, 500])
})

test("a success that comes after its account was forgotten leaves the account's own wait as it is", async () => {
  const { attempt, waits } = slowed({ remembered: 1, freePerAccount: 1 })
  const right = await attempt("account", "192.0.2.1")
  await attempt("another", "192.0.2.2")
  ;(right as Attempt).succeeded()
  for (const from of ["192.0.2.3", "192.0.2.4"]) await attempt("account", from)
  expect(waits).toEqual([1_000])
})

test("a wall clock that is set back makes nobody wait for longer", async () => {
  const waits: number[] = []
  const slowDown = new PasswordThrottle(throttleLimits, undefined, async (ms) => void waits.push(ms))
  const guess = { account: "account", address: "192.0.2.1", isKnown: false }
  for (let n = 0; n < 7; n++) await slowDown.attempt(guess)
  setSystemTime(new Date(Date.now() - 3_600_000))
  try {
    expect(await slowDown.attempt(guess)).not.toBeInstanceOf(Failure)
  } finally {
    setSystemTime()
  }
  expect(waits.at(-1)).toBeLessThanOrEqual(4_000)
})

test("of many who sign up at once from one network, those wait who need no more than ten seconds, and the others are refused", async () => {
  const waits: number[] = []
  let counted = 0
  const store = { count: async () => void counted++ }
  const limiter = new SignUpLimiter(
    store,
    { perHour: 1_000, perDay: 1_000 },
    () => 1_000_000,
    async (ms) => void waits.push(ms),
  )
  const answers = []
  for (let n = 0; n < 22; n++) answers.push(await limiter.admit("192.0.2.1"))
  expect(waits).toEqual(Array.from({ length: 10 }, (_, n) => (n + 1) * 1_000))
  expect(counted).toBe(20)
  for (const refused of answers.splice(20))
    expect(refused).toMatchObject({ code: "rate_limit.sign_up", detail: { retryAfterS: 11 } })
  expect(answers.filter((answer) => answer !== undefined)).toEqual([])
})

const tooMany = (retryAfterS: number) => ({ code: "rate_limit.sign_up", detail: { retryAfterS } })

test("who signs up too often in an hour is told when to come again, in a second at the soonest; this machine never", async () => {
  const counted: string[] = []
  const waits = [90.2, 0, undefined]
  const count = async (network: string) => {
    counted.push(network)
    return waits.shift()
  }
  const limiter = new SignUpLimiter({ count }, { perHour: 1, perDay: 1 }, () => 1_000_000)
  const answers = []
  for (const from of ["127.0.0.1", "::1", "192.0.2.1", "192.0.2.1", "192.0.2.1"])
    answers.push(await limiter.admit(from))
  expect(answers).toMatchObject([undefined, undefined, tooMany(91), tooMany(1), undefined])
  expect(counted).toEqual(["192.0.2.1", "192.0.2.1", "192.0.2.1"])
})
