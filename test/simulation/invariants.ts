/**
 * What must be true of the books at any moment, said of a dump: pure, and fast enough to ask after each of many worlds.
 * Names are those of the claims in SQL, where both have one. Micro-rupiah.
 */
import { price } from "../../actors/money/price.ts"
import { unreachable } from "../../actors/unreachable.ts"
import type { Dump, LeaseRow, TransferRow, UsageRow } from "./dump.ts"
import { claimsOfBreakers } from "./invariants-of-breakers.ts"
import { claimsOfRefunds } from "./invariants-of-refunds.ts"

export interface Violation {
  readonly claim: string
  /** What is against it: ids and amounts. */
  readonly row: Readonly<Record<string, unknown>>
}

export interface Circumstances {
  /** Nobody is at work: no call is under way. */
  readonly quiet?: boolean
  /** No spending limit was ever set, lowered or removed while its key was in use. */
  readonly limitsStay?: boolean
  /** Ceilings of ten minutes were set before the first call, and never changed. */
  readonly ceilingsStay?: boolean
  /** The wall clock was never set, so everybody has heard of a new time zone before a day is over. */
  readonly clockGoesOn?: boolean
}

export type Row = Violation["row"]
export type Claim = (dump: Dump, circumstances: Circumstances) => Iterable<Row>

/** Every row that is against a claim. */
export function violations(dump: Dump, circumstances: Circumstances = {}): Violation[] {
  const found: Violation[] = []
  for (const [claim, contradictions] of claims) {
    for (const row of contradictions(dump, circumstances)) found.push({ claim, row })
  }
  return found
}

export const toldOf = ({ claim, row }: Violation): string =>
  `not true that ${claim}: ${Object.entries(row)
    .map(([column, value]) => `${column} ${String(value)}`)
    .join(", ")}`

const isHouse = (account: string): boolean => account.startsWith("house:")
const leftOf = ({ granted, returned, settled }: Pick<LeaseRow, "granted" | "returned" | "settled">): bigint =>
  granted - returned - settled

/** Sums by name; what has none is zero. */
class Sums {
  readonly #sums = new Map<string, bigint>()
  add(name: string, amount: bigint): void {
    this.#sums.set(name, this.of(name) + amount)
  }
  of(name: string): bigint {
    return this.#sums.get(name) ?? 0n
  }
  names(): Iterable<string> {
    return this.#sums.keys()
  }
}

const claims = new Map<string, Claim>([
  ["a balance is the sum of its transfers", balancesAreSums],
  ["what customers have, the house owes", debitsAreCredits],
  ["a transfer moves something from one account to another, once", transfersAreWhole],
  ["what is leased of a balance is what its open leases have left, and is covered", leasesAreCovered],
  ["a lease has settled and given back no more than it was granted", leasesAreWhole],
  ["an open lease has settled the charges under it", leasesSettleCharges],
  ["a process has one open lease on an account", leasesAreSingle],
  ["what is leased of a key's budget is what its leases have left", budgetsAreCovered],
  ["a key has spent its charges, and those of its children, in all three calendars", spendingIsCharges],
  ["a run has spent what its calls are charged, and no more than its budget", runsAreLimited],
  ["nothing is spent below zero, nor more than the limit", spendingIsLimited],
  ["a budget begins anew when its day or month is over, and not before", budgetsLast],
  ["the transfers of a call are its charge and what the house absorbed of it", transfersAreCharges],
  ["a charge goes from its own account to revenue, and is taken back the same way", chargesGoToRevenue],
  ["a charge is its tokens at its price version", chargesAreTokens],
  ["only an answer is charged", onlyAnswersAreCharged],
  ["a call has one final record", recordsAreFinal],
  ["an ended call is not open", endedCallsAreClosed],
  ["no call is left open", noCallIsLeft],
  ["a paid top-up was credited once, in full, and no other was", topUpsAreCredited],
  ["the service fee of a paid top-up is revenue, once", feesAreRevenue],
  ["a transfer is of a known kind, and an adjustment is an operator's", transfersAreKnown],
  ...claimsOfRefunds,
  ...claimsOfBreakers,
  ["a record is of its key's account", recordsAreOfKeys],
  ["a price had begun when a call was opened at it", pricesHadBegun],
])

function* balancesAreSums({ balances, transfers }: Dump): Iterable<Row> {
  const sums = new Sums()
  for (const { credit, debit, amount } of transfers) {
    sums.add(credit, amount)
    sums.add(debit, -amount)
  }
  const known = new Set<string>()
  for (const { accountId, posted } of balances) {
    known.add(accountId)
    if (posted !== sums.of(accountId)) yield { accountId, posted, ofTransfers: sums.of(accountId) }
  }
  for (const accountId of sums.names()) {
    if (!isHouse(accountId) && !known.has(accountId)) yield { accountId, ofTransfers: sums.of(accountId) }
  }
}

function* debitsAreCredits({ balances, transfers }: Dump): Iterable<Row> {
  let house = 0n
  for (const { credit, debit, amount } of transfers) {
    if (isHouse(credit)) house += amount
    if (isHouse(debit)) house -= amount
  }
  const customers = balances.reduce((sum, { posted }) => sum + posted, 0n)
  if (house + customers !== 0n) yield { house, customers }
}

function* transfersAreWhole({ transfers }: Dump): Iterable<Row> {
  const keys = new Set<string>()
  for (const row of transfers) {
    if (row.amount <= 0n || row.debit === row.credit || keys.has(row.idempotencyKey)) yield { ...row }
    keys.add(row.idempotencyKey)
  }
}

function* leasesAreCovered({ balances, leases }: Dump): Iterable<Row> {
  const sums = new Sums()
  for (const lease of leases) if (!lease.closed) sums.add(lease.accountId, leftOf(lease))
  const known = new Set<string>()
  for (const { accountId, posted, leased } of balances) {
    known.add(accountId)
    const ofLeases = sums.of(accountId)
    if (leased !== ofLeases || leased < 0n || leased > posted) yield { accountId, posted, leased, ofLeases }
  }
  for (const accountId of sums.names()) if (!known.has(accountId)) yield { accountId, ofLeases: sums.of(accountId) }
}

function* leasesAreWhole({ leases, budgetLeases }: Dump): Iterable<Row> {
  for (const row of [...leases, ...budgetLeases]) {
    if (row.settled < 0n || row.returned < 0n || leftOf(row) < 0n) yield { ...row }
  }
}

function* leasesSettleCharges({ leases, usage }: Dump): Iterable<Row> {
  const charged = new Sums()
  for (const { leaseId, charge } of usage) charged.add(String(leaseId), charge)
  for (const { leaseId, accountId, settled, closed } of leases) {
    const charges = charged.of(String(leaseId))
    if (!closed && settled !== charges) yield { leaseId, accountId, settled, charges }
  }
}

function* leasesAreSingle({ leases }: Dump): Iterable<Row> {
  const known = new Set<string>()
  for (const { leaseId, accountId, processId, closed } of leases) {
    if (closed) continue
    if (known.has(`${accountId} ${processId}`)) yield { leaseId, accountId, processId }
    known.add(`${accountId} ${processId}`)
  }
}

const spendName = ({ keyId, period, start }: { keyId: string; period: string; start: number }): string =>
  `${keyId} ${period} ${start}`

function* budgetsAreCovered({ keySpend, budgetLeases }: Dump): Iterable<Row> {
  const sums = new Sums()
  for (const lease of budgetLeases) sums.add(spendName(lease), leftOf(lease))
  const known = new Set<string>()
  for (const { leased, ...row } of keySpend) {
    known.add(spendName(row))
    const ofLeases = sums.of(spendName(row))
    if (leased !== ofLeases) yield { ...row, leased, ofLeases }
  }
  for (const lease of budgetLeases) if (!known.has(spendName(lease))) yield { ...lease }
}

function* spendingIsCharges({ keys: known, keySpend, usage }: Dump): Iterable<Row> {
  const parents = new Map(known.map(({ keyId, parentId }) => [keyId, parentId]))
  const charged = new Sums()
  const spent = { daily: new Sums(), monthly: new Sums(), total: new Sums() }
  for (const { keyId, charge } of usage) {
    charged.add(keyId, charge)
    const parent = parents.get(keyId)
    if (parent !== undefined) charged.add(parent, charge)
  }
  for (const { keyId, period, spent: amount } of keySpend) spent[period].add(keyId, amount)
  const keys = new Set([...charged.names(), ...Object.values(spent).flatMap((sums) => [...sums.names()])].filter(isKey))
  for (const keyId of keys) {
    const [daily, monthly, total] = [spent.daily.of(keyId), spent.monthly.of(keyId), spent.total.of(keyId)]
    const charges = charged.of(keyId)
    if (daily !== charges || monthly !== charges || total !== charges) yield { keyId, daily, monthly, total, charges }
  }
}

const isRun = (id: string): boolean => id.startsWith("run_")
const isKey = (id: string): boolean => !isRun(id) && !id.startsWith("brk_")

function* runsAreLimited({ runs, keySpend, usage }: Dump): Iterable<Row> {
  const [charged, spent] = [new Sums(), new Sums()]
  for (const { runId, charge } of usage) if (runId !== undefined) charged.add(runId, charge)
  for (const { keyId, period, spent: amount } of keySpend) {
    if (!isRun(keyId)) continue
    spent.add(keyId, amount)
    if (period !== "total") yield { runId: keyId, period }
  }
  const budgets = new Map(runs.map(({ runId, budget }) => [runId, budget]))
  for (const runId of new Set([...charged.names(), ...spent.names()])) {
    const [budget, charges] = [budgets.get(runId), charged.of(runId)]
    if (budget === undefined || spent.of(runId) !== charges || charges > budget) {
      yield { runId, budget, spent: spent.of(runId), charges }
    }
  }
}

function* spendingIsLimited({ keys, keySpend }: Dump, { limitsStay = false }: Circumstances): Iterable<Row> {
  const limits = new Map(keys.map((key) => [key.keyId, key]))
  for (const { keyId, period, start, spent } of keySpend) {
    if (spent < 0n) yield { keyId, period, start, spent }
    const key = limits.get(keyId)
    if (!limitsStay || key?.limit === undefined || key.period !== period) continue
    if (spent > key.limit) yield { keyId, period, start, spent, limit: key.limit }
  }
}

/** A day has 23 hours at least, a month 28 days of which one may be such. */
const SHORTEST_MS = { daily: 23 * 3_600_000, monthly: (28 * 24 - 1) * 3_600_000, total: Infinity } as const

function* budgetsLast({ keys, keySpend }: Dump, { limitsStay, clockGoesOn }: Circumstances): Iterable<Row> {
  if (limitsStay !== true || clockGoesOn !== true) return
  for (const { keyId, period, limit } of keys) {
    if (period === undefined || limit === undefined) continue
    const begun = keySpend.filter((row) => row.keyId === keyId && row.period === period && row.spent > 0n)
    const starts = begun.map(({ start }) => start).sort((a, b) => a - b)
    for (const [index, start] of starts.entries()) {
      const next = starts[index + 1]
      if (next !== undefined && next - start < SHORTEST_MS[period]) yield { keyId, period, start, next }
    }
  }
}

/** What the transfers of a call come to: `charge:`, `absorb:`, `void:` and `void-absorb:` before its request id. */
function bookedOf({
  idempotencyKey,
  amount,
}: TransferRow): { requestId: string; charged: bigint; absorbed: bigint } | undefined {
  const colon = idempotencyKey.indexOf(":")
  const requestId = idempotencyKey.slice(colon + 1)
  switch (idempotencyKey.slice(0, colon)) {
    case "charge":
      return { requestId, charged: amount, absorbed: 0n }
    case "void":
      return { requestId, charged: -amount, absorbed: 0n }
    case "absorb":
      return { requestId, charged: 0n, absorbed: amount }
    case "void-absorb":
      return { requestId, charged: 0n, absorbed: -amount }
    default:
      return undefined
  }
}

function* transfersAreCharges({ transfers, usage }: Dump): Iterable<Row> {
  const charges = { booked: new Sums(), recorded: new Sums() }
  const absorptions = { booked: new Sums(), recorded: new Sums() }
  for (const transfer of transfers) {
    const booked = bookedOf(transfer)
    if (booked === undefined) continue
    charges.booked.add(booked.requestId, booked.charged)
    absorptions.booked.add(booked.requestId, booked.absorbed)
  }
  for (const { requestId, charge, absorbed } of usage) {
    charges.recorded.add(requestId, charge)
    absorptions.recorded.add(requestId, absorbed)
  }
  for (const requestId of new Set([...charges.booked.names(), ...charges.recorded.names()])) {
    const [chargeBooked, chargeRecorded] = [charges.booked.of(requestId), charges.recorded.of(requestId)]
    const [absorbedBooked, absorbedRecorded] = [absorptions.booked.of(requestId), absorptions.recorded.of(requestId)]
    if (chargeBooked !== chargeRecorded || absorbedBooked !== absorbedRecorded) {
      yield { requestId, chargeBooked, chargeRecorded, absorbedBooked, absorbedRecorded }
    }
  }
}

function* chargesGoToRevenue({ transfers, usage }: Dump): Iterable<Row> {
  const payers = new Map(usage.filter(({ part }) => part === 0).map((row) => [row.requestId, row.accountId]))
  for (const { idempotencyKey, debit, credit } of transfers) {
    const [kind, requestId = ""] = idempotencyKey.split(":")
    const payer = payers.get(requestId)
    if ((kind !== "charge" && kind !== "void") || payer === undefined) continue
    const [from, to] = kind === "charge" ? [payer, "house:revenue"] : ["house:revenue", payer]
    if (debit !== from || credit !== to) yield { idempotencyKey, debit, credit, payer }
  }
}

function* chargesAreTokens({ usage, prices }: Dump): Iterable<Row> {
  const rates = new Map(prices.map((version) => [version.priceId, version.rates]))
  for (const { requestId, part, status, tokens, priceId, charge, absorbed, excess } of usage) {
    const terms = rates.get(priceId)
    const ofTokens = terms && price(tokens, terms)
    const mustAgree = status === "ok" || absorbed > 0n
    if (ofTokens === undefined || (mustAgree && charge + absorbed - excess !== ofTokens)) {
      yield { requestId, part, status, priceId, charge, absorbed, excess, ofTokens }
    }
  }
}

/** Whether a record of this status may carry a charge (gateway-api.md, "Usage record status"). */
function mayCharge({ status, part }: UsageRow): boolean {
  switch (status) {
    case "ok":
      return part === 0
    case "upstream_error":
    case "aborted_stream":
    case "usage_missing":
    case "billing_error":
    case "fallback_429":
    case "fallback_oversize":
      return false
    default:
      return unreachable(status)
  }
}

function* onlyAnswersAreCharged({ usage }: Dump): Iterable<Row> {
  for (const row of usage) {
    const { requestId, part, status, charge } = row
    if (charge < 0n || (charge > 0n && !mayCharge(row))) yield { requestId, part, status, charge }
  }
}

function* recordsAreFinal({ usage }: Dump): Iterable<Row> {
  const finals = new Map<string, number>()
  for (const { requestId, part } of usage) {
    finals.set(requestId, (finals.get(requestId) ?? 0) + (part === 0 ? 1 : 0))
  }
  for (const [requestId, finalRecords] of finals) if (finalRecords !== 1) yield { requestId, finalRecords }
}

function* endedCallsAreClosed({ openings, usage }: Dump): Iterable<Row> {
  const ended = new Map(usage.filter(({ part }) => part === 0).map((row) => [row.requestId, row.status]))
  for (const { requestId, processId } of openings) {
    const status = ended.get(requestId)
    if (status !== undefined) yield { requestId, processId, status }
  }
}

function* noCallIsLeft({ openings }: Dump, { quiet = false }: Circumstances): Iterable<Row> {
  if (quiet) for (const { requestId, processId } of openings) yield { requestId, processId }
}

/** The idempotency key of a top-up's credit names the top-up. */
const creditOf = ({ idempotencyKey }: TransferRow): string => /top_[^:]*/.exec(idempotencyKey)?.[0] ?? ""

function* topUpsAreCredited({ topUps, transfers }: Dump): Iterable<Row> {
  const credits = Map.groupBy(
    transfers.filter(({ reason }) => reason === "top_up"),
    creditOf,
  )
  for (const { topUpId, accountId, balancePurchased, paid } of topUps) {
    const [credit, ...more] = credits.get(topUpId) ?? []
    credits.delete(topUpId)
    const inFull = credit?.amount === balancePurchased && credit.credit === accountId
    if (more.length > 0 || (paid ? !inFull : credit !== undefined)) {
      yield {
        topUpId,
        paid,
        balancePurchased,
        credits: more.length + (credit === undefined ? 0 : 1),
        credited: credit?.amount,
      }
    }
  }
  for (const [topUpId, [credit]] of credits) yield { topUpId, credited: credit?.amount }
}

function* feesAreRevenue({ topUps, transfers }: Dump): Iterable<Row> {
  const booked = new Sums()
  for (const row of transfers) {
    if (row.reason === "service_fee" && row.credit === "house:revenue") booked.add(creditOf(row), row.amount)
  }
  for (const { topUpId, serviceFee, paid } of topUps) {
    const due = paid ? serviceFee : 0n
    if (booked.of(topUpId) !== due) yield { topUpId, paid, serviceFee, booked: booked.of(topUpId) }
  }
}

/** No operator adjusts anything in these worlds, so an adjustment is nobody's. Refunds have claims of their own. */
function* transfersAreKnown({ transfers }: Dump): Iterable<Row> {
  for (const row of transfers) if (!isKnown(row)) yield { ...row }
}

function isKnown({ idempotencyKey, reason, debit, credit }: TransferRow): boolean {
  const is = (named: string, from: string, to: string): boolean =>
    reason === named &&
    [
      [from, debit],
      [to, credit],
    ].every(([side, account = ""]) => (side === "customer" ? !isHouse(account) : side === account))
  const [kind = ""] = idempotencyKey.split(":")
  switch (kind) {
    case "charge":
      return is("charge", "customer", "house:revenue")
    case "absorb":
      return is("absorbed", "house:absorbed", "house:revenue")
    case "void":
      return is("void", "house:revenue", "customer")
    case "void-absorb":
      return is("void", "house:revenue", "house:absorbed")
    case "topup":
      return idempotencyKey.endsWith(":service_fee")
        ? is("service_fee", "house:cash_clearing", "house:revenue")
        : is("top_up", "house:cash_clearing", "customer")
    case "refund":
    case "refund-cancelled":
    case "claim":
      return true
    default:
      return false
  }
}

function* recordsAreOfKeys({ keys, usage }: Dump): Iterable<Row> {
  const accounts = new Map(keys.map(({ keyId, accountId }) => [keyId, accountId]))
  for (const { requestId, part, keyId, accountId } of usage) {
    const ofKey = accounts.get(keyId)
    if (ofKey !== undefined && ofKey !== accountId) yield { requestId, part, accountId, ofKey }
  }
}

/** By how much clocks may be off. */
const CLOCKS_MS = 2 * 3_600_000

function* pricesHadBegun({ prices, usage }: Dump): Iterable<Row> {
  for (const { priceId, effectiveAt } of prices) {
    const early = usage.filter((row) => row.priceId === priceId && effectiveAt > row.openedAt + CLOCKS_MS)
    if (early.length > 0) yield { priceId, effectiveAt, calls: early.length }
  }
}
