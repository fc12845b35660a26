/** What must be true of money that went back, and of what is claimed of an account for it: of a dump. Micro-rupiah. */
import type { Dump, RefundRow, TransferRow } from "./dump.ts"
import type { Claim, Row } from "./invariants.ts"

export const claimsOfRefunds: readonly (readonly [string, Claim])[] = [
  ["a claim is what its transfers leave, and is settled before anything is free", claimsAreLeft],
  ["a refund is booked once, in full, of its own account and of the house", refundsAreBooked],
  ["of a top-up no more goes back than was paid, and as much as its refunds say", refundsAreOfTopUps],
  ["a refund that no provider made is an operator's", refundsAreSigned],
  ["a claim is settled of its own account", claimsAreOwn],
]

const CLAIMS = "house:claims:"
const add = (sums: Map<string, bigint>, name: string, amount: bigint) => sums.set(name, (sums.get(name) ?? 0n) + amount)

function* claimsAreLeft({ balances, transfers }: Dump): Iterable<Row> {
  const sums = new Map<string, bigint>()
  for (const { debit, credit, amount } of transfers) {
    if (debit.startsWith(CLAIMS)) add(sums, debit.slice(CLAIMS.length), amount)
    if (credit.startsWith(CLAIMS)) add(sums, credit.slice(CLAIMS.length), -amount)
  }
  for (const { accountId, claim, posted, leased } of balances) {
    const ofTransfers = sums.get(accountId) ?? 0n
    sums.delete(accountId)
    if (claim !== ofTransfers || (claim > 0n && posted !== leased))
      yield { accountId, claim, ofTransfers, posted, leased }
  }
  for (const [accountId, ofTransfers] of sums) yield { accountId, ofTransfers }
}

const transfer = (idempotencyKey: string, debit: string, credit: string, amount: bigint, reason: string) => ({
  idempotencyKey,
  debit,
  credit,
  amount,
  reason,
})

/** The transfers that a refund has, and that of one which was cancelled. */
function dueOf({ refundId, accountId, kind, balance, claimed, serviceFee, cancelled }: RefundRow): TransferRow[] {
  const [cash, revenue] = ["house:cash_clearing", "house:revenue"]
  const back = [`refund-cancelled:${refundId}`, `refund-cancelled:${refundId}:service_fee`] as const
  return [
    transfer(`refund:${refundId}`, accountId, cash, balance - claimed, kind),
    transfer(`refund:${refundId}:claim`, CLAIMS + accountId, cash, claimed, kind),
    transfer(`refund:${refundId}:service_fee`, revenue, cash, serviceFee, "fee_refund"),
    transfer(back[0], cash, accountId, cancelled ? balance : 0n, "refund_cancelled"),
    transfer(back[1], cash, revenue, cancelled ? serviceFee : 0n, "fee_refund"),
  ].filter(({ amount }) => amount > 0n)
}

const told = ({ debit, credit, amount, reason }: TransferRow) => `${amount} from ${debit} to ${credit} as ${reason}`

function* refundsAreBooked({ refunds, transfers }: Dump): Iterable<Row> {
  const booked = new Map(
    transfers
      .filter(({ idempotencyKey }) => ["refund", "refund-cancelled"].includes(idempotencyKey.split(":")[0]!))
      .map((row) => [row.idempotencyKey, told(row)]),
  )
  for (const row of refunds.flatMap(dueOf)) {
    const { idempotencyKey } = row
    if (booked.get(idempotencyKey) !== told(row))
      yield { idempotencyKey, due: told(row), booked: booked.get(idempotencyKey) }
    booked.delete(idempotencyKey)
  }
  for (const [idempotencyKey, transfer] of booked) yield { idempotencyKey, booked: transfer }
}

function* refundsAreOfTopUps({ refunds, topUps }: Dump): Iterable<Row> {
  for (const row of topUps) {
    const { topUpId, accountId, paid, balancePurchased, refundedBalance, refundedServiceFee, refundedOtherFees } = row
    const of = refunds.filter((refund) => refund.topUpId === topUpId && !refund.cancelled)
    const sum = (part: "balance" | "serviceFee" | "otherFees") => of.reduce((all, refund) => all + refund[part], 0n)
    const [balance, serviceFee, otherFees] = [sum("balance"), sum("serviceFee"), sum("otherFees")]
    const kept = refundedBalance === balance && refundedServiceFee === serviceFee && refundedOtherFees === otherFees
    const over = balance > balancePurchased || serviceFee > row.serviceFee || otherFees > row.otherFees
    const wrong = of.length > 0 && (!paid || of.some((refund) => refund.accountId !== accountId))
    if (!kept || over || wrong)
      yield { topUpId, paid, balance, refundedBalance, serviceFee, refundedServiceFee, otherFees }
  }
}

function* refundsAreSigned({ refunds, refundActs }: Dump): Iterable<Row> {
  for (const { refundId, accountId, kind, balance, serviceFee, otherFees } of refunds) {
    const amount = balance + serviceFee + otherFees
    const signed = refundActs.some(
      (act) => act.refundId === refundId && act.accountId === accountId && act.amount === amount,
    )
    if (kind === "refund" && !signed) yield { refundId, accountId, amount }
  }
}

function* claimsAreOwn({ transfers }: Dump): Iterable<Row> {
  for (const { idempotencyKey, debit, credit, amount, reason } of transfers) {
    const [kind, account] = idempotencyKey.split(":")
    if (kind !== "claim") continue
    if (reason !== "claim" || credit !== CLAIMS + debit || account !== debit)
      yield { idempotencyKey, debit, credit, amount }
  }
}
