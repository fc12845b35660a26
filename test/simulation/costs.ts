/**
 * What calls cost the house, reckoned anew from what each backend was asked and what it said: at the cost and the exchange rate
 * that were in force when the call was opened. Exact where a whole answer was counted; of one that broke off nobody counted
 * the rest, and its estimate lies between what was heard and what was asked for. Micro-rupiah.
 */
import { largestCost } from "../../actors/money/price.ts"
import type { UsageRow } from "./dump.ts"
import type { CostTerms } from "./shop-costs.ts"
import type { Said, Stage } from "./stage.ts"

const MILLION = 1_000_000n
/** Micro-rupiah are nano-units for a million tokens × tokens × micro-rupiah for a unit, over this. */
const SCALE = 10n ** 15n
/** Estimates of a prompt of these worlds are never below it. */
const MIN_INPUT = 5
/** Estimates grow with what was counted of earlier prompts: an account's own by so much, and each model's by so much. */
const MAX_LEARNT = 4 * 1.6

/** What a backend will bill of one try. */
interface Bill {
  readonly said: Said
  /** It bills something, for sure. */
  readonly isSure: boolean
  /** Undefined where it is not known what that costs. */
  readonly least: bigint | undefined
  readonly most: bigint | undefined
  /** Of the searches that it ran. */
  readonly searches: bigint | undefined
}

/** All that is against the costs of the calls. */
export function miscosted(usage: readonly UsageRow[], stage: Stage, terms: CostTerms): string[] {
  const found: string[] = []
  const learnt = learntOf(usage, stage)
  for (const [requestId, rows] of Map.groupBy(usage, (row) => row.requestId)) {
    const problem = wrongIn(rows, stage.said.get(requestId) ?? [], { ...terms, learnt }, (what) => stage.count(what))
    if (problem !== undefined) found.push(`${requestId}: ${problem}`)
  }
  return found
}

const learning = ({ accountId, model }: UsageRow): string => `${accountId} ${model}`

/** Of which accounts and models a backend counted more input than any estimate that nothing was learnt for. */
function learntOf(usage: readonly UsageRow[], { said }: Stage): ReadonlySet<string> {
  return new Set(usage.filter(({ requestId }) => said.get(requestId)?.some(isOver)).map(learning))
}

const isOver = ({ counts }: Said) => (counts?.input ?? 0) > MIN_INPUT

/** What must happen in many worlds. */
export const costsPlayed = [
  "cost is not known",
  "retry that its backend bills",
  "retry that its backend bills at an unknown cost",
  "searches that their backend bills",
] as const
type Count = (what: (typeof costsPlayed)[number]) => void

interface Terms extends CostTerms {
  readonly learnt: ReadonlySet<string>
}

function wrongIn(rows: readonly UsageRow[], said: readonly Said[], terms: Terms, count: Count): string | undefined {
  const final = rows.find(({ part }) => part === 0)
  const beside = rows.filter(({ part }) => part > 0).sort((a, b) => a.part - b.part)
  const retries = beside.filter(({ status }) => status === "upstream_error")
  const searches = beside.filter(({ status }) => status === "ok")
  if (final === undefined) return undefined
  for (const row of beside) {
    const { input, output, cacheRead, cacheWrite } = row.tokens
    if (row.charge + row.absorbed > 0n || input + output + cacheRead + cacheWrite > 0)
      return "a part that its customer never sees has tokens, or is paid"
    if (isMarker(row) && row.cost !== 0n) return "what was refused has a cost"
  }
  // A process that closed another has no journal of what that one asked.
  if (final.member === undefined) return final.cost === undefined ? undefined : "it has a cost, and no backend"
  const isLoose = final.status === "billing_error"
  const bills = said.map((one) => billOf(one, final, terms))
  const search = missearched(searches, bills, final, count)
  if (search !== undefined) return search
  if (final.cost === undefined) count("cost is not known")
  for (const { cost } of retries)
    count(cost === undefined ? "retry that its backend bills at an unknown cost" : "retry that its backend bills")
  if (isExplained({ final, retries, bills, isLoose })) return undefined
  const recorded = [final, ...retries].map(({ status, member, cost }) => `${status} ${member} ${cost}`)
  return `its backends bill ${bills.map(toldOf).join("; ")}, and it is recorded as ${recorded.join("; ")}`
}

const isMarker = ({ status }: UsageRow) => status === "fallback_429" || status === "fallback_oversize"
const toldOf = ({ said, isSure, least, most }: Bill): string =>
  `${said.member} ${isSure ? "" : "perhaps "}${least} to ${most}${said.whole ? ", whole" : ""}`

interface Recorded {
  readonly final: UsageRow
  readonly retries: readonly UsageRow[]
  readonly bills: readonly Bill[]
  /** Nobody was told an answer, and tries may have been recorded before they had ended. */
  readonly isLoose: boolean
}

/** Whether each try is in the final record, or is a retry, or is one that is not billed, so that all records come out. */
function isExplained({ final, retries, bills, isLoose }: Recorded): boolean {
  const mayBeUnbilled = (bill: Bill) => isLoose || !bill.isSure
  const from = (at: number, retry: number, inFinal: readonly Bill[]): boolean => {
    const bill = bills[at]
    if (bill === undefined) return retry === retries.length && isSum(final.cost, inFinal, mayBeUnbilled)
    const row = retries[retry]
    const isLast = at === bills.length - 1
    // Who has left may have been given a place at another member that was not asked any more.
    const isMember = !isLast || final.status !== "ok" || bill.said.member === final.member
    if ((isLast || bill.said.whole) && isMember && from(at + 1, retry, [...inFinal, bill])) return true
    // There may have been another that did not come to be asked, and a try may have ended after its call was settled.
    if (isLast && !isLoose && (final.status === "ok" || final.cost !== 0n)) return false
    if (mayBeUnbilled(bill) && from(at + 1, retry, inFinal)) return true
    return row?.member === bill.said.member && isWithin(row.cost, bill) && from(at + 1, retry + 1, inFinal)
  }
  return from(0, 0, [])
}

function isWithin(cost: bigint | undefined, { least, most }: Bill): boolean {
  if (least === undefined || most === undefined || cost === undefined) return cost === least
  return cost >= least && cost <= most
}

function isSum(cost: bigint | undefined, bills: readonly Bill[], mayBeUnbilled: (bill: Bill) => boolean): boolean {
  const unknown = bills.filter(({ least }) => least === undefined)
  if (cost === undefined) return unknown.length > 0
  if (!unknown.every(mayBeUnbilled)) return false
  let least = 0n
  let most = 0n
  for (const bill of bills) {
    least += mayBeUnbilled(bill) ? 0n : (bill.least ?? 0n)
    most += bill.most ?? 0n
  }
  return cost >= smaller(least) && cost <= smaller(most)
}

/** Searches of answers that came whole are a part of their own, unless they cost nothing. */
function missearched(
  rows: readonly UsageRow[],
  bills: readonly Bill[],
  { status, turns }: UsageRow,
  count: Count,
): string | undefined {
  const whole = bills.filter(({ said }) => said.whole)
  // An answer that came whole and was not taken may not have been read so far.
  const taken = new Set(status === "ok" ? whole.slice(-turns) : [])
  const due = whole.filter(({ said, searches }) => said.searches > 0 && searches !== 0n)
  let next = 0
  for (const bill of due) {
    const row = rows[next]
    if (row?.member === bill.said.member && row.cost === bill.searches) next++
    else if (taken.has(bill)) return `what ${bill.said.member} bills for searches, ${bill.searches}, is not recorded`
  }
  for (const _ of rows) count("searches that their backend bills")
  return next === rows.length ? undefined : `${rows.length} searches are recorded, and its backends ran ${due.length}`
}

function billOf(said: Said, row: UsageRow, terms: Terms): Bill {
  const priced = pricingOf(terms, said.backend, row.openedAt)
  const of = (input: number, output: number) => priced && reckoned(priced, { input, output, searches: 0, calls: 1n })
  const searches = priced && reckoned(priced, { input: 0, output: 0, searches: said.searches, calls: 0n })
  const asked = said.mostTokens * said.choices
  const { input, output } = said.counts ?? {}
  if (!said.begun) return { said, isSure: false, least: 0n, most: 0n, searches }
  if (said.whole && isCount(input) && isCount(output) && input + output > 0) {
    const exact = of(input, output)
    return { said, isSure: true, least: exact, most: exact, searches }
  }
  const leastInput = isCount(input) ? Math.min(MIN_INPUT, input) : 0
  const mostEstimate = terms.learnt.has(learning(row)) ? Math.ceil(said.length * MAX_LEARNT) : said.length
  const mostInput = Math.max(mostEstimate, isCount(input) ? input : 0)
  const least = of(leastInput, 1)
  const most = of(mostInput, Math.max(asked, isCount(output) ? output : 0))
  return { said, isSure: said.heard, least, most, searches }
}

const isCount = (count: number | undefined): count is number => Number.isSafeInteger(count) && (count ?? -1) >= 0

interface Pricing {
  readonly cost: CostTerms["costs"][number]["cost"]
  readonly unit: bigint
}

function pricingOf({ costs, exchangeRates }: CostTerms, backend: string, openedAt: number): Pricing | undefined {
  const latest = <V extends { readonly effectiveAt: number }>(versions: readonly V[]): V | undefined =>
    versions.filter(({ effectiveAt }) => effectiveAt <= openedAt).sort((a, b) => b.effectiveAt - a.effectiveAt)[0]
  const cost = latest(costs.filter((version) => version.backend === backend))?.cost
  if (cost === undefined) return undefined
  if (cost.currency === "IDR") return { cost, unit: MILLION }
  const unit = latest(exchangeRates.filter(({ currency }) => currency === cost.currency))?.unit
  return unit === undefined ? undefined : { cost, unit }
}

interface Consumed {
  readonly input: number
  readonly output: number
  readonly searches: number
  readonly calls: bigint
}

/** Nano-units are rounded up to steps; rupiah to a micro-rupiah, once. No prompt of these worlds is cached. */
function reckoned({ cost, unit }: Pricing, { input, output, searches, calls }: Consumed): bigint {
  const fees = [calls * cost.perCall, BigInt(searches) * cost.perSearch].map((fee) => fee * MILLION)
  const items = [BigInt(input) * cost.rates.input, BigInt(output) * cost.rates.output, ...fees]
  const step = cost.step * MILLION
  const stepped = (amount: bigint) => ((amount + step - 1n) / step) * step
  const each = cost.rounding === "per_bucket" ? items.map(stepped) : items
  const sum = each.reduce((all, item) => all + item, 0n)
  const billed = cost.rounding === "per_call" ? stepped(sum) : sum
  return smaller((billed * unit + SCALE - 1n) / SCALE)
}

const smaller = (amount: bigint): bigint => (amount < largestCost ? amount : largestCost)
