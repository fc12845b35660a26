/**
 * Purses of three processes that share one pot, under a seed: statements are slow, fail, and are sometimes carried out
 * without an answer, or long after they were given up; notices come late or not at all. At no moment do they promise more
 * than there is, and when all is quiet again any one of them can spend the last unit.
 */
import { expect, test } from "bun:test"
import type { Random } from "../../actors/kernel/clock.ts"
import { VirtualClock, seededRandom } from "../kernel/virtual-time.ts"
import type { HoldOutcome, LeaseNews, VersionedLease } from "../../actors/lease.ts"
import { LeasedPurse } from "../../actors/leased-purse.ts"
import { micro } from "../../actors/money/micro.ts"

const TOTAL = 1_000n
const PURSES = 3
const CALLS = 120

interface Row {
  granted: bigint
  returned: bigint
  settled: bigint
  version: number
}

class Pot {
  readonly clock = new VirtualClock()
  readonly random: Random
  readonly rows: Row[] = []
  readonly purses: LeasedPurse[] = []
  /** Faults happen until the calls have ended. */
  faulty = true

  constructor(seed: number) {
    this.random = seededRandom(seed)
    for (let n = 0; n < PURSES; n++) this.#join(n)
  }

  #join(n: number): void {
    const row: Row = { granted: 0n, returned: 0n, settled: 0n, version: 0 }
    this.rows.push(row)
    const lease = () => ({
      granted: micro(row.granted),
      returned: micro(row.returned),
      settled: micro(row.settled),
      version: row.version,
    })
    const purse: LeasedPurse = new LeasedPurse(
      {
        clock: this.clock,
        self: (news) => purse.receive(news),
        grow: (short, version) =>
          this.#statement(
            () => {
              const overtaken = row.version++ !== version
              const share = short > this.free / 2n ? short : this.free / 2n
              const amount = overtaken ? 0n : share > this.free ? this.free : share
              row.granted += amount
              const left = this.rows.some((other) => other !== row && other.granted > other.returned + other.settled)
              if (left && short > amount && !overtaken) this.#recall(n, short - amount)
              return { type: "grown", lease: lease(), more: left || this.free > 0n }
            },
            (news) => purse.receive(news ?? { type: "not-grown" }),
          ),
        giveBack: (returned) =>
          this.#statement(
            () => {
              row.version++
              if (returned > row.returned) {
                row.returned = returned
                this.#notify(() => ({ type: "freed" }))
              }
              return { type: "returned", lease: lease() }
            },
            (news) => purse.receive(news ?? { type: "not-returned" }),
          ),
      },
      undefined,
      true,
    )
    this.purses.push(purse)
  }

  get free(): bigint {
    return this.rows.reduce((sum, { granted, returned }) => sum - granted + returned, TOTAL)
  }

  /** Carried out or not, or long after it was given up, answered or not. */
  #statement(run: () => LeaseNews, tell: (news: LeaseNews | undefined) => void): void {
    const fate = this.faulty ? this.random() : 1
    if (fate >= 0.2 && fate < 0.3) {
      this.later(20, () => tell(undefined))
      return this.later(400, () => void run())
    }
    this.later(20, () => {
      const news = fate < 0.1 ? undefined : run()
      this.later(20, () => tell(fate < 0.2 ? undefined : news))
    })
  }

  #notify(news: (to: number) => LeaseNews | undefined): void {
    for (const [to, purse] of this.purses.entries()) {
      const said = news(to)
      if (said !== undefined && !(this.faulty && this.random() < 0.3)) this.later(20, () => purse.receive(said))
    }
  }

  #recall(from: number, amount: bigint): void {
    this.#notify((to) => (to === from ? undefined : { type: "recalled", amount: micro(amount), yields: from < to }))
  }

  later(maxMs: number, run: () => void): void {
    this.clock.after(this.random() * maxMs, run)
  }

  /** A call that holds what it may cost, runs for a while, and is charged or let go. */
  call(id: string, told: (outcome: HoldOutcome) => void): void {
    const n = Math.floor(this.random() * PURSES)
    const purse = this.purses[n]!
    const cost = micro(BigInt(Math.floor(this.random() * 60)))
    purse.hold({ requestId: id, least: cost, target: cost }, (outcome) => {
      told(outcome)
      if (typeof outcome === "string") return
      this.later(100, () => {
        if (this.random() < 0.5) return purse.release(id)
        const { charge } = purse.settle(id, micro((outcome * BigInt(Math.floor(this.random() * 100))) / 100n))
        // The ledger writes it a little later.
        this.later(30, () => void (this.rows[n]!.settled += charge))
      })
    })
  }

  get promised(): bigint {
    return this.purses.reduce((sum, { available, held, settled }) => sum + available + held + settled, 0n)
  }
}

function play(seed: number): void {
  const pot = new Pot(seed)
  let outcomes = 0
  for (let call = 0; call < CALLS; call++) {
    pot.later(3_000, () => pot.call(`call-${call}`, () => void outcomes++))
  }
  // The terms of the whole may have changed, at any time.
  for (const purse of pot.purses) pot.later(3_000, () => purse.reconsider())
  const runFor = (ms: number) => {
    for (const until = pot.clock.monotonic() + ms; pot.clock.monotonic() < until;) {
      pot.clock.advance(1)
      if (pot.promised > TOTAL) throw new Error(`seed ${seed}: ${pot.promised} of ${TOTAL} are promised`)
    }
  }
  runFor(4_000)
  expect({ seed, outcomes }).toEqual({ seed, outcomes: CALLS })

  pot.faulty = false
  runFor(2_000)
  const left = pot.rows.reduce((sum, { settled }) => sum - settled, TOTAL)
  const told: HoldOutcome[] = []
  const last = pot.purses[seed % PURSES]!
  last.hold({ requestId: "all", least: micro(left), target: micro(left) }, (outcome) => void told.push(outcome))
  runFor(400)
  expect({ seed, told }).toEqual({ seed, told: [micro(left)] })

  // In the end nobody keeps anything from anybody.
  last.release("all")
  pot.clock.advance(125_000)
  const kept = pot.purses.filter((purse) => !purse.isIdle).length
  expect({ seed, kept, free: pot.free }).toEqual({ seed, kept: 0, free: left })
}

const unsettled = (granted: bigint, returned: bigint, version: number) => ({
  granted: micro(granted),
  returned: micro(returned),
  settled: micro(0n),
  version,
})

test("what a growth under way grants under old terms is not spent under new ones", () => {
  for (const outcome of ["grown", "not-grown"] as const) {
    const clock = new VirtualClock()
    const growths: bigint[] = []
    const returns: bigint[] = []
    const ports = {
      clock,
      self: (news: LeaseNews) => purse.receive(news),
      grow: (short: bigint) => void growths.push(short),
      giveBack: (returned: bigint) => void returns.push(returned),
    }
    const purse: LeasedPurse = new LeasedPurse(ports, undefined, true)
    const told: HoldOutcome[] = []
    const hold = (id: string) =>
      purse.hold({ requestId: id, least: micro(10n), target: micro(10n) }, (held) => void told.push(held))
    hold("first")
    if (outcome === "not-grown") {
      // It was carried out, but its answer was lost; a statement that has an answer tells what there is.
      purse.receive({ type: "not-grown" })
      expect(told.splice(0)).toEqual(["unavailable"])
      purse.reconsider()
      purse.receive({ type: "recalled", amount: micro(1n), yields: true })
      expect(growths).toHaveLength(2)
    } else purse.reconsider()
    // Who has waited for so long is not refused under the old terms.
    clock.advance(300)
    purse.receive({ type: "grown", lease: unsettled(1_000n, 0n, 1), more: false })
    expect([outcome, purse.available, told]).toEqual([outcome, micro(0n), []])
    expect(returns).toEqual([1_000n])
    hold("second")
    purse.receive({ type: "returned", lease: unsettled(1_000n, 1_000n, 2) })
    purse.receive({ type: "grown", lease: unsettled(1_000n, 1_000n, 3), more: false })
    expect({ outcome, told }).toEqual({ outcome, told: Array(outcome === "grown" ? 2 : 1).fill("insufficient") })
  }
})

/** A purse whose statements end when the test says so. */
function purseOf(lease: VersionedLease | undefined, isUnsure = false) {
  const clock = new VirtualClock()
  const statements: string[] = []
  const purse: LeasedPurse = new LeasedPurse(
    {
      clock,
      self: (news: LeaseNews) => purse.receive(news),
      grow: (short: bigint) => void statements.push(`grow by ${short}`),
      giveBack: (returned: bigint, recount: boolean) =>
        void statements.push(`${recount ? "recount" : "return"} ${returned}`),
    },
    lease,
    true,
    isUnsure,
  )
  return { clock, statements, purse }
}

test("a lease that nobody uses is given back after a minute, and one that a purse before this one may have left is found first", () => {
  for (const isLeft of [false, true]) {
    const { clock, statements, purse } = purseOf(isLeft ? undefined : unsettled(100n, 0n, 1), isLeft)
    clock.advance(59_999)
    expect({ isLeft, statements, isIdle: purse.isIdle }).toEqual({ isLeft, statements: [], isIdle: false })
    clock.advance(1)
    if (isLeft) {
      expect(statements.splice(0)).toEqual(["grow by 0"])
      purse.receive({ type: "grown", lease: unsettled(100n, 0n, 1), more: true })
      clock.advance(60_000)
    }
    expect({ isLeft, statements, isIdle: purse.isIdle }).toEqual({ isLeft, statements: ["return 100"], isIdle: false })
    purse.receive({ type: "returned", lease: unsettled(100n, 100n, 2) })
    expect(purse.isIdle).toBe(true)
  }
  const { clock, purse } = purseOf(undefined, true)
  clock.advance(60_000)
  purse.receive({ type: "grown", lease: unsettled(100n, 100n, 1), more: true })
  expect(purse.isIdle).toBe(true)
})

test("what was charged before a lease's first growth began is in what it is told then, and is not counted again", () => {
  const { clock, statements, purse } = purseOf(undefined)
  purse.count(micro(30n))
  clock.advance(500)
  expect(statements).toEqual([])
  const told: HoldOutcome[] = []
  purse.hold({ requestId: "a", least: micro(10n), target: micro(10n) }, (held) => void told.push(held))
  purse.receive({ type: "grown", lease: { ...unsettled(100n, 0n, 1), settled: micro(30n) }, more: false })
  expect([told, purse.settled, purse.available]).toEqual([[micro(10n)], micro(30n), micro(60n)])
  clock.advance(500)
  expect(statements).toEqual(["grow by 20"])
})

test("a purse that is charged with more than its lease has recounts, and one that is charged with all of it does not", () => {
  for (const charge of [60n, 61n]) {
    const { clock, statements, purse } = purseOf(unsettled(100n, 40n, 1))
    purse.count(micro(charge))
    clock.advance(500)
    expect({ charge, statements }).toEqual({ charge, statements: charge === 60n ? [] : ["recount 40"] })
    if (charge === 60n) continue
    // Until it has an answer.
    purse.receive({ type: "not-returned" })
    clock.advance(500)
    expect(statements).toEqual(["recount 40", "recount 40"])
  }
})

test("what a growth without an answer has granted is given back when it is found under new terms, or while the process drains", () => {
  for (const why of ["new terms", "drain"] as const) {
    const { statements, purse } = purseOf(unsettled(10n, 10n, 1))
    purse.hold({ requestId: "a", least: micro(50n), target: micro(50n) }, () => {})
    purse.receive({ type: "not-grown" })
    if (why === "drain") purse.drain(true)
    else purse.reconsider()
    purse.receive({ type: "recalled", amount: micro(1n), yields: true })
    expect({ why, statements }).toEqual({ why, statements: ["grow by 100", "return 10"] })
    purse.receive({ type: "returned", lease: unsettled(110n, 10n, 3) })
    expect({ why, last: statements.at(-1), available: purse.available }).toEqual({
      why,
      last: "return 110",
      available: micro(0n),
    })
  }
})

test("over five hundred interleavings three processes promise no more than there is, and all of it can be spent", () => {
  for (let seed = 0; seed < 500; seed++) play(seed)
})
