/**
 * The tables of the books in memory: rows as `dump.ts` says them, changed in place, found by what the statements look them
 * up by. Micro-rupiah, milliseconds.
 */
import type { KeyRecord } from "../../actors/key-record.ts"
import type { RunningPeriods, SpendingPeriod } from "../../actors/period.ts"
import type { Notice } from "../../src/store/notices.ts"
import type {
  BalanceRow,
  BreakerRow,
  BudgetLeaseRow,
  Dump,
  KeyRow,
  KeySpendRow,
  LeaseRow,
  OpeningRow,
  PriceRow,
  ProcessRow,
  RunRow,
  TopUpRow,
  TransferRow,
  UsageRow,
} from "./dump.ts"

type Changeable<Row> = { -readonly [Column in keyof Row]: Row[Column] }

interface AccountRow {
  timeZone: string
  deleted: boolean
  frozen: boolean
  readonly keyHashes: string[]
}

export interface ModelKey extends Changeable<KeyRow> {
  readonly keyHash: string
  readonly requestsPerMinute: number | undefined
  readonly tokensPerMinute: number | undefined
  readonly replaysRetries: boolean | undefined
  running: RunningPeriods
  /** What it may be used for, and until when. */
  bound: Pick<KeyRecord, "binding" | "expiresAt"> | undefined
}

export interface ModelBreaker {
  readonly ceiling: bigint | undefined
  readonly stops: boolean
  readonly pauseMinutes: number | undefined
  /** By the database's clock; `Infinity` until it is resumed. It may be over. */
  pausedUntil: number | undefined
}

/** What a call was charged under a ceiling; less than nothing where that was taken back, at the time of the charge. */
export interface PurseCharge {
  readonly requestId: string
  readonly at: number
  readonly amount: bigint
}

interface ModelProcess extends Changeable<ProcessRow> {
  /** Its place in the order in which processes began to take calls. */
  servingSince: number | undefined
}

export type ModelLease = Changeable<LeaseRow>
export type ModelSpend = Changeable<KeySpendRow>
export type ModelUsage = Changeable<UsageRow>

export class Tables {
  readonly accounts = new Map<string, AccountRow>()
  readonly keys = new Map<string, ModelKey>()
  readonly keysByHash = new Map<string, ModelKey>()
  /** By `spendId`. */
  readonly keySpend = new Map<string, ModelSpend>()
  readonly balances = new Map<string, Changeable<BalanceRow>>()
  /** By idempotency key. */
  readonly transfers = new Map<string, TransferRow>()
  readonly processes = new Map<string, ModelProcess>()
  readonly leases = new Map<bigint, ModelLease>()
  /** By account and then process: the open ones. */
  readonly openLeases = new Map<string, Map<string, ModelLease>>()
  /** By `spendId` and then process. */
  readonly budgetLeases = new Map<string, Map<string, Changeable<BudgetLeaseRow>>>()
  readonly openings = new Map<string, OpeningRow>()
  /** By `usageId`. */
  readonly usage = new Map<string, ModelUsage>()
  readonly runs = new Map<string, RunRow>()
  /** By purse. */
  readonly breakers = new Map<string, ModelBreaker>()
  /** By purse and then minute. */
  readonly spendingMinutes = new Map<string, Map<number, bigint>>()
  /** By purse, since it was last resumed. Nothing of it is in Postgres. */
  readonly purseCharges = new Map<string, PurseCharge[]>()
  readonly topUps = new Map<string, Changeable<TopUpRow>>()
  readonly prices = new Map<bigint, PriceRow>()
  /** The database's clock. */
  readonly now: () => number
  #told: Notice[] = []

  constructor(now: () => number) {
    this.now = now
  }

  anotherLives(than: string): boolean {
    for (const row of this.processes.values()) if (!row.closed && row.processId !== than) return true
    return false
  }

  lives(processId: string): boolean {
    return this.processes.get(processId)?.closed === false
  }

  /** What is free of a balance; of none, nothing. */
  free(accountId: string): bigint {
    const balance = this.balances.get(accountId)
    return balance === undefined ? 0n : balance.posted - balance.leased
  }

  /** What counts of the last ten minutes: a minute does until ten minutes after its end. */
  spentLately(purse: string): bigint {
    let sum = 0n
    for (const [minute, spent] of this.spendingMinutes.get(purse) ?? []) {
      if (minute > this.now() - 11 * 60_000) sum += spent
    }
    return sum
  }

  tell(notice: Notice): void {
    this.#told.push(notice)
  }

  /** Of what is in `key_spend`: a breaker, a run, or a key. */
  tellFreed(id: string): void {
    if (id.startsWith("brk_")) this.tell({ what: "freed", about: "breaker", id })
    else if (id.startsWith("run_")) this.tell({ what: "freed", about: "run", id })
    else this.tellKey(id, "freed")
  }

  tellKey(keyId: string, what: "freed" | "changed"): void {
    const key = this.keys.get(keyId)
    if (key !== undefined) this.tell({ what, about: "key", id: key.keyHash })
  }

  takeNotices(): readonly Notice[] {
    const told = this.#told
    this.#told = []
    return told
  }

  dump(): Dump {
    return {
      keys: [...this.keys.values()].map(({ keyId, accountId, limit, period, parentId, revoked }) => ({
        keyId,
        accountId,
        limit,
        period,
        parentId,
        revoked,
      })),
      keySpend: rows(this.keySpend),
      balances: rows(this.balances),
      transfers: rows(this.transfers),
      processes: [...this.processes.values()].map(({ processId, closed }) => ({ processId, closed })),
      leases: rows(this.leases),
      budgetLeases: [...this.budgetLeases.values()].flatMap(rows),
      openings: rows(this.openings),
      usage: rows(this.usage),
      runs: rows(this.runs),
      breakers: breakerRows(this),
      topUps: rows(this.topUps),
      // Nobody asks these books for money back.
      refunds: [],
      refundActs: [],
      prices: rows(this.prices),
    }
  }
}

function breakerRows(tables: Tables): BreakerRow[] {
  const purses = new Set([...tables.breakers.keys(), ...tables.spendingMinutes.keys()])
  return [...purses].flatMap((purse) => {
    const { ceiling, stops = false, pausedUntil } = tables.breakers.get(purse) ?? {}
    const lately = tables.spentLately(purse)
    if (ceiling === undefined && pausedUntil === undefined && lately === 0n) return []
    return [{ purse, ceiling, stops, paused: pausedUntil !== undefined, lately }]
  })
}

/** Copies, so that a dump stays what it was. */
const rows = <Row extends object>(table: ReadonlyMap<unknown, Row>): Row[] =>
  [...table.values()].map((row) => ({ ...row }))

export const spendId = (keyId: string, period: SpendingPeriod, start: number): string => `${keyId} ${period} ${start}`
export const usageId = (requestId: string, part: number): string => `${requestId} ${part}`

/** Puts a row into a table of two levels. */
export function put<Row>(table: Map<string, Map<string, Row>>, first: string, second: string, row: Row): void {
  const inner = table.get(first)
  if (inner === undefined) table.set(first, new Map([[second, row]]))
  else inner.set(second, row)
}
