/**
 * What the moves made so far have come to, and what the next one is in the words of books. Processes may be zombies, batches
 * may come again, settlements after their voids; only a call itself never changes. Micro-rupiah.
 */
import { type Batch, BatchRefused } from "../../actors/ledger.ts"
import { micro } from "../../actors/money/micro.ts"
import { noTokens, price } from "../../actors/money/price.ts"
import { unreachable } from "../../actors/unreachable.ts"
import type { SpendingPeriod } from "../../actors/period.ts"
import { type BudgetPeriod, growBudget } from "../../src/store/budget-leases.ts"
import { type CallClaim, type CallKeyRow, claimCall } from "../../src/store/call-keys.ts"
import { purseOf } from "../../src/store/breakers.ts"
import { loadKey } from "../../src/store/live-keys.ts"
import { closeProcess } from "../../src/store/processes.ts"
import type { Move } from "./moves.ts"
import { zones } from "./shop.ts"
import { type Call, DAY, NOW, rates, type Side, startsOf, CHILD, keyHash, PARENT } from "./side.ts"

interface ModelBatch {
  readonly process: string
  readonly opened: readonly Call[]
  readonly settled: readonly { readonly call: Call; readonly voided: boolean }[]
}

interface KnownLease {
  readonly process: string
  readonly account: number
}

const periods = ["daily", "monthly", "total"] as const

export class Course {
  readonly #leases: KnownLease[] = []
  readonly #calls: Call[] = []
  readonly #batches: ModelBatch[] = []
  readonly #claims: CallClaim[] = []
  /** Of leases, when they last grew. */
  readonly #versions = new Map<string, number>()
  #prices = 1
  #topUps = 2

  /** The same for all books that a move is made on. */
  plan(move: Move): (side: Side) => Promise<unknown> {
    const process = `prc_${move.process}`
    const accountId = `acc_${move.account}`
    const keyId = `key_${move.key}`
    const amount = micro(BigInt(move.amount))
    const of = this.#periodOf(move)
    const ownerOfBreaker = this.#ownerOfBreaker(move)
    const purse = purseOf(...ownerOfBreaker)
    // Some growths are repeated, or come late.
    const version = Math.max(0, (this.#versions.get(this.#grownBy(move)) ?? 0) - (move.pick % 5 === 0 ? 1 : 0))
    switch (move.kind) {
      case "register":
        return ({ books }) => books.registerProcess(process)
      case "serve":
        return ({ books }) => books.serve(process)
      case "drain":
        return ({ books }) => books.drain(process)
      case "share":
        return ({ books }) => books.share(process)
      case "take-lock":
        return ({ books }) => books.takeLock(process)
      case "drop-lock":
        return ({ books }) => books.dropLock(process)
      case "is-closed":
        return ({ books }) => books.isClosed(process)
      case "find-dead":
        return async ({ books }) => {
          // Whoever has no lock of its own finds nobody.
          if (move.pick % 2 === 0) await books.takeLock(process)
          return (await books.findDead(process, move.flag)).sort()
        }
      case "close":
        return ({ books }) => closeProcess(books, process, move.flag)
      case "fence":
        return ({ books }) => books.fence(process, move.flag)
      case "return-leases":
        return ({ books }) => books.returnLeases(process)
      case "return-budgets":
        return ({ books }) => books.returnBudgets(process)
      case "record-openings":
        return ({ books }) => books.recordOpenings(process)
      case "grow-lease":
        return async (side) => side.grown(await side.books.growLease(process, accountId, amount, version))
      case "return-lease": {
        const lease = move.pick % Math.max(1, this.#leases.length)
        return async (side) => side.lease(await side.books.returnLease(side.leaseId(lease), amount))
      }
      case "grow-budget":
        return ({ books }) => growBudget(books, process, of, amount, version)
      case "grow-opened-budget":
        return ({ books }) => books.growBudget(process, of, amount, version)
      case "open-budget":
        return ({ books }) => books.openBudget(of)
      case "return-budget":
        return ({ books }) => books.returnBudget(process, of, amount)
      case "load-key":
        return ({ books }) => loadKey(books, keyHash(move.key), NOW + (move.flag ? 12 * DAY : 0))
      case "commit":
        return this.#commit(this.#batchOf(move, process))
      case "commit-again": {
        const again = this.#batches[move.pick % Math.max(1, this.#batches.length)]
        return again === undefined ? async () => undefined : this.#commit(again)
      }
      case "claim-call-key": {
        const claim = this.#claim(move)
        return ({ books }) => claimCall(books.callKeys, claim)
      }
      case "take-call-key-late": {
        const claim = this.#claimed(move)
        return async ({ books }) => claim && (await books.callKeys.takeCallKey(claim))
      }
      case "take-call-key-over-late": {
        const claim = this.#claimed(move)
        const from = this.#claims[(move.pick >> 3) % Math.max(1, this.#claims.length)]?.requestId ?? ""
        return async ({ books }) => claim && (await books.callKeys.takeCallKeyOver(claim, from))
      }
      case "read-call-key": {
        const claim = this.#claimed(move)
        return async ({ books }) => claim && said(await books.callKeys.readCallKey(claim))
      }
      case "free-call-key": {
        const claim = this.#claimed(move)
        return async ({ books }) => claim && (await books.callKeys.freeCallKey(claim))
      }
      case "credit": {
        const topUp = move.pick % this.#topUps
        return ({ books }) => books.credit(`top_${topUp}`, `topup:simulated:top_${topUp}`)
      }
      case "create-top-up": {
        const topUpId = `top_${this.#topUps++}`
        const serviceFee = micro(BigInt(move.pick % 3))
        return ({ books }) =>
          books.createTopUp({ topUpId, accountId, balancePurchased: micro(amount + 1n), serviceFee })
      }
      case "change-budget": {
        const budget = move.flag ? { limit: amount, period: periods[move.pick % 3]! } : undefined
        return ({ books }) => books.changeBudget(keyId, budget)
      }
      case "revoke-key":
        return ({ books }) => books.revokeKey(keyId)
      case "change-time-zone": {
        const zone = zones[move.pick % zones.length]!
        // Also the day before the later one, which then begins in one that runs on.
        const at = NOW + (move.flag ? 11 * DAY : 0) + move.amount
        return ({ books }) => books.changeTimeZone(accountId, zone, at)
      }
      case "grow-breaker":
        return ({ books }) => books.growBreaker(process, purse, amount, version)
      case "return-breaker":
        return ({ books }) => books.returnBudget(process, { keyId: purse, period: "total", start: 0 }, amount)
      case "trip-breaker":
        return async ({ books }) => [...((await books.tripBreaker(purse, amount)) ?? ["nobody"])].sort()
      case "look-breaker":
        // When it clears is by another clock in each of the books.
        return async ({ books }) => ({ ...(await books.lookBreaker(purse)), resetS: 0 })
      case "set-breaker": {
        const ceilingMicro = move.pick % 4 === 0 ? undefined : amount
        const breaker = { ceilingMicro, stops: move.pick % 5 > 0, pauseMinutes: undefined }
        return ({ books }) => books.setBreaker(...ownerOfBreaker, breaker)
      }
      case "resume-breaker":
        return ({ books }) => books.resumeBreaker(...ownerOfBreaker)
      case "minutes-pass":
        return ({ books }) => books.minutesPass(8)
      case "delete-account":
        return ({ books }) => books.deleteAccount(accountId)
      case "freeze-account":
        return ({ books }) => books.freezeAccount(accountId)
      case "unfreeze-account":
        return ({ books }) => books.unfreezeAccount(accountId)
      case "create-key": {
        // No two accounts make keys of one name.
        const next = 10 + 5 * move.account + (move.pick % 5)
        return ({ books }) => books.createKey({ keyId: `key_${next}`, accountId, keyHash: keyHash(next) })
      }
      case "add-price": {
        const next = this.#prices++
        return (side) => side.addPrice(rates[next % rates.length]!, NOW + next)
      }
      default:
        return unreachable(move.kind)
    }
  }

  /**
   * Two accounts with money, the first with a key that has a budget and its child, which has one too, the other with a key that has
   * none, two runs, a first price, and two processes.
   */
  async begin(side: Side): Promise<void> {
    const { books } = side
    const budgets = [
      { limit: micro(4_000n), period: "daily" },
      undefined,
      { limit: micro(9_000n), period: "total" },
    ] as const
    for (const n of [0, 1]) {
      await books.createAccount(`acc_${n}`, n === 0 ? "Asia/Jakarta" : "America/New_York")
      const topUp = {
        topUpId: `top_${n}`,
        accountId: `acc_${n}`,
        balancePurchased: micro(20_000n),
        serviceFee: micro(70n),
      }
      await books.createTopUp(topUp)
      await books.credit(topUp.topUpId, `topup:simulated:${topUp.topUpId}`)
    }
    for (const [key, budget] of budgets.entries()) {
      await books.createKey({
        keyId: `key_${key}`,
        accountId: accountOf(key),
        keyHash: keyHash(key),
        ...(budget && { budget }),
        ...(key === CHILD && { parentId: `key_${PARENT}` }),
      })
    }
    // One that calls are charged to, and one that is too small for any.
    const run = { accountId: "acc_0", keyId: "key_0", createdAt: NOW, endsAt: NOW + DAY }
    await books.openRun({ ...run, runId: "run_0", name: "0", budget: micro(1_000_000_000n) })
    await books.openRun({ ...run, runId: "run_1", name: "1", budget: micro(4_000n) })
    // Ceilings that a few calls come to.
    const breaker = { stops: true, pauseMinutes: undefined }
    await books.setBreaker("acc_0", "key_0", { ...breaker, ceilingMicro: micro(3_000n) })
    await books.setBreaker("acc_0", undefined, { ...breaker, ceilingMicro: micro(5_000n) })
    await side.addPrice(rates[0]!, NOW)
    for (const process of ["prc_0", "prc_1"]) await books.registerProcess(process)
  }

  /** A lease that a move has led to, or has made grow. */
  learn(move: Move, outcome: unknown): void {
    if (!move.kind.startsWith("grow-") || outcome === undefined) return
    const { lease } = outcome as { lease: { id: number; version: number } }
    this.#versions.set(this.#grownBy(move), lease.version)
    if (move.kind === "grow-lease" && lease.id === this.#leases.length)
      this.#leases.push({ process: `prc_${move.process}`, account: move.account })
  }

  /** Of the call that is opened next, or of one that was lately: those with the same name and key want the same row. */
  #claim({ process, key, pick, flag }: Move): CallClaim {
    const claim = {
      keyId: `key_${key}`,
      keyHash: Buffer.alloc(32, pick % 8 === 0 ? 1 : 0),
      accountId: accountOf(key),
      fingerprint: Buffer.alloc(32, flag ? 1 : 2),
      requestId: `req_${Math.max(0, this.#calls.length - (pick % 4))}`,
      processId: `prc_${process}`,
    }
    this.#claims.push(claim)
    return claim
  }

  /** One that was sent before: mostly of late. */
  #claimed({ pick }: Move): CallClaim | undefined {
    return this.#claims.at(-1 - (pick % Math.max(1, Math.min(5, this.#claims.length))))
  }

  #grownBy(move: Move): string {
    if (move.kind === "grow-lease") return `${move.process} acc_${move.account}`
    if (move.kind === "grow-breaker") return `${move.process} ${purseOf(...this.#ownerOfBreaker(move))}`
    const { keyId, period, start } = this.#periodOf(move)
    return `${move.process} ${keyId} ${period} ${start}`
  }

  /** A key's, or its account's. */
  #ownerOfBreaker({ key, flag }: Move): [accountId: string, keyId: string | undefined] {
    return [accountOf(key), flag ? undefined : `key_${key}`]
  }

  #periodOf({ key, pick, flag }: Move): BudgetPeriod {
    if (pick % 6 === 3) return { keyId: flag ? "run_0" : "run_1", period: "total", start: 0 }
    // Mostly the period that the key begins with.
    const own: SpendingPeriod = key === 2 ? "total" : "daily"
    const period = pick % 4 === 0 ? periods[pick % 3]! : own
    return { keyId: `key_${key}`, period, start: startsOf(flag)[period] }
  }

  #batchOf({ entries, key, flag }: Move, process: string): ModelBatch {
    const opened: Call[] = []
    const settled = new Map<string, { call: Call; voided: boolean }>()
    for (const { entry, pick, input, output } of entries) {
      if (entry === "open" || entry === "open-and-settle") {
        const leases = [...this.#leases.entries()].filter(([, lease]) => lease.process === process)
        const found = leases[pick % Math.max(1, leases.length)]
        if (found === undefined) continue
        const call = this.#call({ process, pick, input, output, key, later: flag }, found)
        if (entry === "open") opened.push(call)
        else settled.set(call.requestId, { call, voided: false })
      } else {
        const calls = this.#calls.filter((call) => call.process === process)
        // Those long ago are not asked for any more.
        const call = calls[calls.length - 1 - (pick % Math.max(1, Math.min(6, calls.length)))]
        if (call !== undefined) settled.set(call.requestId, { call, voided: entry === "void" })
      }
    }
    const batch = {
      process,
      opened: opened.filter((call) => !settled.has(call.requestId)),
      settled: [...settled.values()],
    }
    this.#batches.push(batch)
    return batch
  }

  #call(
    of: { process: string; pick: number; input: number; output: number; key: number; later: boolean },
    [lease, { account }]: readonly [number, KnownLease],
  ): Call {
    const { process, pick, input, output, later } = of
    const status = pick % 5 === 0 ? (["upstream_error", "usage_missing", "aborted_stream"] as const)[pick % 3]! : "ok"
    const version = pick % this.#prices
    const tokens = status === "ok" ? { input, output, cacheRead: pick % 7, cacheWrite: pick % 11 } : noTokens
    const cost = price(tokens, rates[version % rates.length]!)
    const excess = status === "ok" && pick % 8 === 0 ? BigInt(pick) : 0n
    const absorbed = excess + (pick % 6 === 0 ? cost / 3n : 0n)
    // Keys belong to accounts: a call of an account is made with one of its keys.
    const key = account === 1 ? 1 : of.key === 1 ? 0 : of.key
    const call: Call = {
      requestId: `req_${this.#calls.length}`,
      process,
      account,
      key,
      lease,
      price: version,
      status,
      tokens,
      absorbed,
      excess,
      run: account === 0 && pick % 4 === 0,
      breakers: pick % 3 !== 0,
      markers: pick % 9 === 0 ? 1 : 0,
      later,
    }
    this.#calls.push(call)
    return call
  }

  #commit({ process, opened, settled }: ModelBatch): (side: Side) => Promise<unknown> {
    return async (side) => {
      const batch: Batch = {
        openings: opened.map((call) => side.opening(call)),
        settlements: settled.map(({ call, voided }) => side.settlement(call, voided)),
      }
      try {
        return [...(await side.books.commit(process, batch))].sort()
      } catch (error) {
        if (error instanceof BatchRefused) return "refused"
        throw error
      }
    }
  }
}

/** Bytes as text, whatever they are read as. */
const said = (row: CallKeyRow | undefined) =>
  row && { ...row, fingerprint: Buffer.from(row.fingerprint).toString("hex") }

const accountOf = (key: number) => `acc_${key === 1 ? 1 : 0}`
