/**
 * One process's purse of a key's budget, under a seed, with calls that hold nothing of it: they were admitted before there was such a
 * budget, or under another one. What they cost is taken from the lease, held or not, when the ledger has it. Statements are slow, fail,
 * and are carried out without an answer; charges are taken back; the limit is raised. No hold is given on what is spent, all that is left
 * can be held, and what is told of it is exact.
 */
import { expect, test } from "bun:test"
import { VirtualClock, seededRandom } from "../kernel/virtual-time.ts"
import { Budget } from "../../actors/key-limits.ts"
import type { HoldOutcome, LeaseNews } from "../../actors/lease.ts"
import { type Micro, micro } from "../../actors/money/micro.ts"

const LIMIT = 1_000n
const RAISED = 300n
const CALLS = 60
const COUNTED = 8

function play(seed: number): void {
  const clock = new VirtualClock()
  const random = seededRandom(seed)
  const later = (mostMs: number, run: () => void) => void clock.after(random() * mostMs, run)
  const amount = (below: number): Micro => micro(BigInt(Math.floor(random() * below)))

  const row = { granted: 0n, returned: 0n, settled: 0n, version: 0 }
  let [limit, elsewhere, faulty] = [LIMIT, 0n, true]
  const free = (): bigint => {
    const left = limit - elsewhere - row.granted + row.returned
    return left > 0n ? left : 0n
  }
  const lease = () => ({
    granted: micro(row.granted),
    returned: micro(row.returned),
    settled: micro(row.settled),
    version: row.version,
  })
  const grow = (version: number): LeaseNews => {
    const overtaken = row.version++ !== version
    row.granted += overtaken ? 0n : free()
    return { type: "grown", lease: lease(), more: free() > 0n, elsewhere: micro(elsewhere) }
  }
  const giveBack = (returned: bigint): LeaseNews => {
    row.version++
    const most = row.granted - row.settled
    const back = (returned < most ? returned : most) - row.returned
    if (back > 0n) row.returned += back
    return { type: "returned", lease: lease() }
  }
  /** Carried out or not, or long after it was given up, answered or not. */
  const statement = (run: () => LeaseNews, failed: LeaseNews) => {
    const fate = faulty ? random() : 1
    later(20, () => {
      const news = fate < 0.1 || (fate >= 0.2 && fate < 0.3) ? failed : run()
      later(20, () => budget.receive(fate < 0.2 ? failed : news))
    })
    if (fate >= 0.2 && fate < 0.3) later(400, () => void run())
  }

  /** What was sent to the ledger and is not durable, and who waits until nothing is. */
  let sent = 0
  const waiting: (() => void)[] = []
  const whenWritten = (run: () => void) => (sent === 0 ? run() : void waiting.push(run))
  const written = () => {
    if (--sent === 0) for (const run of waiting.splice(0)) run()
  }
  let spent = 0n
  const book = (charge: Micro) => {
    spent += charge
    sent++
    if (random() < 0.2) {
      // The ledger did not have it in time: it is taken back, and never booked.
      later(200, () => {
        spent -= charge
        budget.unsettle(charge)
        later(30, written)
      })
    } else {
      later(30, () => {
        const left = row.granted - row.returned - row.settled
        const ofLease = charge < left ? charge : left
        row.settled += ofLease
        elsewhere += charge - ofLease
        written()
      })
    }
  }

  const budget: Budget = new Budget(
    {
      clock,
      self: (of, news) => of.receive(news),
      driverOf: (of) => ({
        grow(_short, version) {
          const begin = () => statement(() => grow(version), { type: "not-grown" })
          if (of.opened) begin()
          else whenWritten(begin)
        },
        giveBack(returned, recount) {
          const begin = () => statement(() => giveBack(returned), { type: "not-returned" })
          if (recount) whenWritten(begin)
          else begin()
        },
      }),
    },
    { keyId: "key", period: "total", start: 0, spent: micro(0n), mayBeLeased: false },
  )
  const holds = new Map<string, bigint>()
  const call = (requestId: string) => {
    const cost = amount(120)
    budget.purse.hold({ requestId, least: cost, target: cost }, (held) => {
      if (typeof held === "string") return
      holds.set(requestId, held)
      const promised = [...holds.values()].reduce((sum, each) => sum + each, spent)
      if (held > 0n && promised > limit) throw new Error(`seed ${seed}: ${promised} of ${limit} are spent and held`)
      later(100, () => {
        holds.delete(requestId)
        if (random() < 0.5) budget.purse.release(requestId)
        else book(budget.purse.settle(requestId, micro((held * amount(100)) / 100n)).charge)
      })
    })
  }
  for (let n = 0; n < CALLS; n++) later(3_000, () => call(`call-${n}`))
  for (let n = 0; n < COUNTED; n++) {
    later(3_000, () => {
      const cost = amount(60)
      budget.count(cost)
      book(cost)
    })
  }
  if (seed % 2 === 1) {
    later(3_000, () => {
      limit += RAISED
      budget.purse.reconsider()
    })
  }
  clock.advance(4_500)
  faulty = false
  clock.advance(3_000)
  const left = micro(limit - spent)
  if (left <= 0n) return
  const told: HoldOutcome[] = []
  budget.purse.hold({ requestId: "all", least: left, target: left }, (held) => void told.push(held))
  clock.advance(600)
  expect({ seed, told, usage: budget.usage }).toEqual({ seed, told: [left], usage: micro(limit) })
}

test("over five hundred interleavings a budget pays once for what calls from before it cost, and all of it can be spent", () => {
  for (let seed = 0; seed < 500; seed++) play(seed)
})
