/**
 * All rows that money is in, as plain data: what invariants are claimed of, and what two kinds of books are compared by.
 * Micro-rupiah. What the server's own clock wrote is left out; of a time that matters it is said whether it is set.
 */
import type { UsageStatus } from "../../actors/ledger.ts"
import type { Rates, Tokens } from "../../actors/money/price.ts"
import type { SpendingPeriod } from "../../actors/period.ts"
import type { RefundKind } from "../../src/store/refunds.ts"

export interface Dump {
  readonly keys: readonly KeyRow[]
  readonly keySpend: readonly KeySpendRow[]
  readonly balances: readonly BalanceRow[]
  readonly transfers: readonly TransferRow[]
  readonly processes: readonly ProcessRow[]
  readonly leases: readonly LeaseRow[]
  readonly budgetLeases: readonly BudgetLeaseRow[]
  readonly openings: readonly OpeningRow[]
  readonly usage: readonly UsageRow[]
  readonly runs: readonly RunRow[]
  readonly breakers: readonly BreakerRow[]
  readonly topUps: readonly TopUpRow[]
  readonly refunds: readonly RefundRow[]
  readonly refundActs: readonly RefundAct[]
  readonly prices: readonly PriceRow[]
}

export interface KeyRow {
  readonly keyId: string
  readonly accountId: string
  readonly limit: bigint | undefined
  readonly period: SpendingPeriod | undefined
  readonly parentId: string | undefined
  readonly revoked: boolean
}

export interface KeySpendRow {
  readonly keyId: string
  readonly period: SpendingPeriod
  readonly start: number
  readonly spent: bigint
  readonly leased: bigint
}

export interface BalanceRow {
  readonly accountId: string
  readonly posted: bigint
  readonly leased: bigint
  /** What the house claims of it. */
  readonly claim: bigint
}

export interface TransferRow {
  readonly idempotencyKey: string
  readonly debit: string
  readonly credit: string
  readonly amount: bigint
  readonly reason: string
}

export interface ProcessRow {
  readonly processId: string
  readonly closed: boolean
}

interface LeaseSums {
  readonly granted: bigint
  readonly returned: bigint
  readonly settled: bigint
  readonly version: number
}

export interface LeaseRow extends LeaseSums {
  readonly leaseId: bigint
  readonly accountId: string
  readonly processId: string
  readonly closed: boolean
}

export interface BudgetLeaseRow extends LeaseSums {
  readonly keyId: string
  readonly period: SpendingPeriod
  readonly start: number
  readonly processId: string
}

interface CallRow {
  readonly requestId: string
  readonly accountId: string
  readonly keyId: string
  readonly leaseId: bigint
  readonly model: string
  readonly priceId: bigint
  readonly openedAt: number
}

export interface OpeningRow extends CallRow {
  readonly processId: string
  readonly hold: bigint
}

export interface UsageRow extends CallRow {
  /** 0 is the final record; 1, 2, … are the markers of reroutes. */
  readonly part: number
  readonly status: UsageStatus
  readonly tokens: Tokens
  readonly charge: bigint
  readonly absorbed: bigint
  readonly excess: bigint
  readonly turns: number
  readonly attempts: number
  readonly errorCode: string | undefined
  readonly flagged: boolean
  /** Undefined where no backend is known to have been asked. */
  readonly member: string | undefined
  /** What it cost the house; undefined where that is not known. */
  readonly cost: bigint | undefined
  /** The run that the call is one of. */
  readonly runId: string | undefined
}

export interface RunRow {
  readonly runId: string
  readonly accountId: string
  readonly keyId: string
  readonly name: string
  readonly budget: bigint
  readonly endsAt: number
}

/** A ceiling of ten minutes, as its owner has set it. */
export interface BreakerRow {
  readonly purse: string
  readonly ceiling: bigint | undefined
  readonly stops: boolean
  readonly paused: boolean
  /** What counts of the last ten minutes. */
  readonly lately: bigint
}

export interface TopUpRow {
  readonly topUpId: string
  readonly accountId: string
  readonly balancePurchased: bigint
  readonly serviceFee: bigint
  /** Of the payment and of the network. */
  readonly otherFees: bigint
  readonly paid: boolean
  /** What went back of each part. */
  readonly refundedBalance: bigint
  readonly refundedServiceFee: bigint
  readonly refundedOtherFees: bigint
}

export interface RefundRow {
  readonly refundId: string
  readonly accountId: string
  readonly topUpId: string | undefined
  readonly kind: RefundKind
  readonly cancelled: boolean
  readonly balance: bigint
  readonly serviceFee: bigint
  readonly otherFees: bigint
  /** The part of `balance` that was not free. */
  readonly claimed: bigint
}

/** An operator's, in the audit log. */
export interface RefundAct {
  readonly accountId: string
  readonly refundId: string
  readonly amount: bigint
}

export interface PriceRow {
  readonly priceId: bigint
  readonly model: string
  readonly rates: Rates
  readonly effectiveAt: number
}
