/**
 * One reconciliation: the books held against their claims, top-ups against their providers, what differs written down, and
 * the accounts that it is about frozen. It can be broken off at any point and begun anew. Nothing is locked that a call needs.
 *
 * Then that of each day, in the process. Of several processes one does it: the day is a row that one of them
 * takes. What the last one came to, whoever did it, is read again at each look, for the metrics.
 */
import { micro, microToRupiah } from "../../actors/money/micro.ts"
import type { Log } from "../log.ts"
import { type Connection, within } from "../store/connection.ts"
import type { Sql } from "../store/database.ts"
import {
  type LastReconciliation,
  type Proof,
  proofPoint,
  prove,
  type ReconciliationStore,
} from "../store/reconciliations.ts"
import { type Claim, type Difference, differencesIn, type Finding, notComparedIn } from "./claim.ts"
import { claimsSince } from "./claims-since.ts"
import { claims } from "./claims.ts"
import { comparePayments, type PaymentsParts } from "./payments.ts"

export interface ReconcileParts {
  readonly store: ReconciliationStore
  /** A connection of its own for the long statements. */
  readonly connect: () => Promise<Connection>
  readonly payments: PaymentsParts
  readonly freeze: (accountId: string, reason: string, found: Difference["figures"]) => Promise<unknown>
  /** What all request ids of a millisecond begin with. */
  readonly firstId: (ms: number) => string
  readonly now: () => number
}

interface ReconcileOptions {
  readonly signal: AbortSignal
  /** Reads everything, whatever was proven. */
  readonly full?: boolean | undefined
  readonly progress?: Progress | undefined
}

/** After so long everything is read again: what was proven may have been changed by somebody who knows the tables. */
const FULL_EVERY_MS = 7 * 24 * 60 * 60 * 1_000

interface Reconciliation {
  readonly id: bigint
  /** When what was not read was found to agree. Undefined: everything was read. */
  readonly since: Date | undefined
  readonly findings: readonly Finding[]
  readonly frozen: readonly string[]
}

/** Throws when it could not be done to its end, as when the database does not answer or `signal` ends it. */
export async function reconcile(parts: ReconcileParts, id: bigint, options: ReconcileOptions): Promise<Reconciliation> {
  const { found, since } = await books(parts, options)
  const frozen = new Set<string>()
  const freeze = async (by: readonly Finding[]) => {
    const reasons = new Map(by.flatMap((finding) => finding.accounts.map((account) => [account, finding])))
    for (const [account, { claim, shown }] of reasons) {
      const figures = shown.find(({ accountId }) => accountId === account)?.figures
      await parts.freeze(account, `reconciliation ${id}: it does not hold that ${claim}`, { claim, ...figures })
      frozen.add(account)
    }
  }
  // At once: to compare top-ups takes hours where there are many, or their provider is slow.
  await freeze(found)
  const findings = [...found, await comparePayments(parts.payments, options.signal)]
  await freeze(findings.slice(found.length))
  // Last, so that one that was broken off is seen as not done.
  await parts.store.end(id, {
    claims: findings.map(({ claim, compared, differences }) => ({ name: claim, compared, differences })),
    differences: differencesIn(findings),
    notCompared: notComparedIn(findings),
    shown: findings.flatMap(({ claim, shown }) => shown.map((difference) => ({ claim, ...difference }))),
  })
  return { id, since: since?.madeAt, findings, frozen: [...frozen] }
}

/** What is new since the last proof, and everything where something differs; what agrees is a new proof. */
async function books(parts: ReconcileParts, { full = false, ...options }: ReconcileOptions) {
  const connection = await parts.connect()
  using _dropped = { [Symbol.dispose]: () => connection.discard() }
  const point = await proofPoint(connection.sql, parts.firstId, parts.now())
  const { base } = point
  let since = full || base === undefined || !goesOn(base, parts) ? undefined : base
  let found = await checkBooks(connection, since === undefined ? claims : claimsSince(since), options)
  if (since !== undefined && differencesIn(found) > 0) {
    since = undefined
    found = await checkBooks(connection, claims, options)
  }
  if (differencesIn(found) === 0) await within(CLAIM_MS, prove(connection.sql, point, since === undefined))
  return { found, since }
}

/** Not where all is to be read again, and not of a clock that was ahead: what came since would sort before what it has proven. */
const goesOn = ({ fullAt, untilCall }: Proof, { firstId, now }: ReconcileParts): boolean =>
  Math.abs(now() - fullAt.getTime()) <= FULL_EVERY_MS && untilCall <= firstId(now())

/** How many differences of one claim are shown; all are counted. */
const SHOWN = 100
/** How many accounts one claim freezes at once. The next reconciliation finds the rest. */
const ACCOUNTS = 10_000
/** A claim reads a table or two from one end to the other. */
export const CLAIM_MS = 600_000

/** Told before each claim how many were held. */
export type Progress = (held: number, of: number) => void

/** Throws when the database does not answer, or when `signal` ends it; the connection is not fit for use then. */
async function checkBooks(
  connection: Connection,
  claims: readonly Claim[],
  { signal, progress = () => {} }: { readonly signal: AbortSignal; readonly progress?: Progress | undefined },
): Promise<readonly Finding[]> {
  const findings: Finding[] = []
  const { promise: ended, reject } = Promise.withResolvers<never>()
  const end = () => reject(new Error("the reconciliation was ended"))
  signal.addEventListener("abort", end, { once: true })
  // postgres.js may leave a statement unsettled whose connection was lost.
  connection.onClosed(() => reject(new Error("the connection was lost")))
  ended.catch(() => {})
  using _listening = { [Symbol.dispose]: () => signal.removeEventListener("abort", end) }
  for (const claim of claims) {
    if (signal.aborted) end()
    progress(findings.length, claims.length)
    findings.push(await Promise.race([ended, within(CLAIM_MS, checkClaim(connection.sql, claim))]))
  }
  return findings
}

interface Row {
  readonly compared: bigint
  readonly differences: bigint
  readonly accounts: readonly string[]
  readonly shown: readonly { readonly account_id: string | null; readonly figures: Difference["figures"] }[]
}

/** One statement, and so one moment. Figures are text, because JSON's numbers end at 2^53. */
export async function checkClaim(sql: Sql, { name, of, compared, contradictions }: Claim): Promise<Finding> {
  const [row] = await sql<Row[]>`
    with found as materialized (${sql.unsafe(contradictions)}),
    first as (
      select f.account_id, (
        select jsonb_object_agg(key, value) from jsonb_each_text(to_jsonb(f) - 'account_id')
      ) as figures
      from (select * from found order by account_id nulls first limit ${SHOWN}) f
    )
    select (select count(*) from ${compared === undefined ? sql(of) : sql.unsafe(compared)}) as compared, (select count(*) from found) as differences,
      array(select distinct account_id from found where account_id is not null order by 1 limit ${ACCOUNTS}) as accounts,
      (select coalesce(jsonb_agg(first), '[]') from first) as shown`
  if (row === undefined) throw new Error(`no answer to whether ${name}`)
  return {
    claim: name,
    compared: Number(row.compared),
    notCompared: 0,
    differences: Number(row.differences),
    accounts: row.accounts,
    shown: row.shown.map(({ account_id, figures }) => ({ accountId: account_id, figures, mended: false })),
  }
}

/** What a reconciliation found, for a person at a terminal. Money in rupiah beside micro-rupiah. */
export function reportText({ id, since, findings, frozen }: Reconciliation): string {
  const width = Math.max(...findings.map(({ claim }) => claim.length))
  const row = (claim: string, compared: string, differences: string) =>
    `${claim.padEnd(width)}  ${compared.padStart(12)}  ${differences.padStart(11)}`
  const differences = differencesIn(findings)
  return [
    row(`reconciliation ${id}`, "compared", "differences"),
    ...findings.map(({ claim, compared, differences }) => row(claim, count(compared), count(differences))),
    ...findings.flatMap(differencesText),
    "",
    ...(since === undefined
      ? []
      : [`of what is new since ${since.toISOString()}, when all before agreed; everything with --full`]),
    ...(notComparedIn(findings) > 0
      ? [`${counted(notComparedIn(findings), "top-up")} not compared: their provider gave no answer, or keeps no list`]
      : []),
    ...(frozen.length > 0 ? [`frozen: ${frozen.join(" ")}`] : []),
    differences === 0 ? "all agrees" : counted(differences, "difference"),
  ].join("\n")
}

function differencesText({ claim, differences, shown }: Finding): string[] {
  if (differences === 0) return []
  const left = differences - shown.length
  const more = left > 0 ? [`  and ${count(left)} more`] : []
  return ["", `not so: ${claim}`, ...shown.map(differenceText), ...more]
}

const differenceText = ({ accountId, figures, mended }: Difference): string =>
  [
    `  ${accountId ?? "the house's books"}${mended ? ", mended" : ""}:`,
    ...Object.entries(figures).map(([name, value]) => `    ${name} ${figureText(name, value)}`),
  ].join("\n")

const figureText = (name: string, value: string | null): string => {
  if (value === null) return "nothing"
  return name.endsWith("_micro") && /^-?\d+$/.test(value)
    ? `${value} (Rp ${microToRupiah(micro(BigInt(value)))})`
    : value
}

const count = (value: number): string => value.toLocaleString("en-US")
/** As in "1 difference" and "2 differences". */
export const counted = (number: number, what: string): string => `${count(number)} ${what}${number === 1 ? "" : "s"}`

export const reportJson = ({ id, since, findings, frozen }: Reconciliation) => ({
  reconciliation: Number(id),
  since: since?.toISOString() ?? null,
  differences: differencesIn(findings),
  not_compared: notComparedIn(findings),
  frozen,
  claims: findings.map(({ claim, compared, notCompared, differences, shown }) => ({
    claim,
    compared,
    not_compared: notCompared,
    differences,
    shown: shown.map(({ accountId, figures, mended }) => ({ account_id: accountId, ...figures, mended })),
  })),
})

export interface DailyParts {
  /** Of the day in UTC, from which on it is due. */
  readonly hour: number
  readonly processId: string
  readonly store: Pick<ReconciliationStore, "beginDay" | "last">
  readonly reconcile: (id: bigint, signal: AbortSignal) => Promise<Reconciliation>
  readonly now: () => number
  readonly log: Log
}

const LOOK_EVERY_MS = 60_000
const HOUR_MS = 3_600_000

export class Daily {
  readonly #parts: DailyParts
  readonly #ended = new AbortController()
  #looking: Promise<void> = Promise.resolve()
  #timer: ReturnType<typeof setInterval> | undefined
  #last: LastReconciliation | undefined

  constructor(parts: DailyParts) {
    this.#parts = parts
  }

  /** The one that ended last, as of the last look. */
  get last(): LastReconciliation | undefined {
    return this.#last
  }

  /** Looks first a minute from now, when a process that starts has other things behind it. */
  async start(): Promise<void> {
    this.#last = await this.#parts.store.last()
    this.#timer = setInterval(() => void this.look(), LOOK_EVERY_MS)
  }

  /** Does what is due, if nobody else is at it. Never throws; what failed is tried again at the next look. */
  look(): Promise<void> {
    this.#looking = this.#looking.then(() => this.#look())
    return this.#looking
  }

  /** Breaks off what is under way. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    this.#ended.abort()
    await this.#looking
  }

  async #look(): Promise<void> {
    const { hour, store, processId, now, log } = this.#parts
    const { signal } = this.#ended
    if (signal.aborted) return
    try {
      const day = new Date(now() - hour * HOUR_MS).toISOString().slice(0, 10)
      const id = await store.beginDay(day, processId)
      if (id !== undefined) this.#tell(await this.#parts.reconcile(id, signal))
      this.#last = await store.last()
    } catch (error) {
      if (!signal.aborted) log.warn("books not reconciled", { error: String(error) })
    }
  }

  #tell({ id, since, findings, frozen }: Reconciliation): void {
    const { log } = this.#parts
    const differences = differencesIn(findings)
    const fields = {
      reconciliation: Number(id),
      since: since?.toISOString() ?? "",
      compared: findings.reduce((total, { compared }) => total + compared, 0),
      not_compared: notComparedIn(findings),
      differences,
      claims: findings.flatMap((finding) => (finding.differences > 0 ? [finding.claim] : [])).join("; "),
      frozen: frozen.slice(0, 100).join(" "),
    }
    if (differences === 0) log.info("books reconciled", fields)
    else log.error("books do not agree", fields)
  }
}
