/**
 * One reconciliation: the books held against their claims, top-ups against their providers, what differs written down, and
 * the accounts that it is about frozen. It can be broken off at any point and begun anew.
 */
import type { Connection } from "../store/connection.ts"
import type { ReconciliationStore } from "../store/reconciliations.ts"
import { type Proof, proofPoint, prove } from "../store/proofs.ts"
import { within } from "../store/deadline.ts"
import { checkBooks, CLAIM_MS, type Progress } from "./books.ts"
import { claims } from "./claims.ts"
import { claimsSince } from "./claims-since.ts"
import { differencesIn, type Finding, notComparedIn } from "./finding.ts"
import { comparePayments, type PaymentsParts } from "./payments.ts"

export interface ReconcileParts {
  readonly store: ReconciliationStore
  /** A connection of its own for the long statements. */
  readonly connect: () => Promise<Connection>
  readonly payments: PaymentsParts
  readonly freeze: (accountId: string, reason: string) => Promise<unknown>
  /** What all request ids of a millisecond begin with. */
  readonly firstId: (ms: number) => string
  readonly now: () => number
}

export interface ReconcileOptions {
  readonly signal: AbortSignal
  /** Reads everything, whatever was proven. */
  readonly full?: boolean | undefined
  readonly progress?: Progress | undefined
}

/** After so long everything is read again: what was proven may have been changed by somebody who knows the tables. */
const FULL_EVERY_MS = 7 * 24 * 60 * 60 * 1_000

export interface Reconciliation {
  readonly id: bigint
  /** When what was not read was found to agree. Undefined: everything was read. */
  readonly since: Date | undefined
  readonly findings: readonly Finding[]
  readonly frozen: readonly string[]
}

/** Throws when it could not be done to its end, as when the database does not answer or `signal` ends it. */
export async function reconcile(parts: ReconcileParts, id: bigint, options: ReconcileOptions): Promise<Reconciliation> {
  const { found, since } = await books(parts, options)
  const findings = [...found, await comparePayments(parts.payments, options.signal)]
  const reasons = new Map(findings.flatMap(({ claim, accounts }) => accounts.map((account) => [account, claim])))
  for (const [account, claim] of reasons) {
    await parts.freeze(account, `reconciliation ${id}: it does not hold that ${claim}`)
  }
  // Last, so that one that was broken off is seen as not done.
  await parts.store.end(id, {
    claims: findings.map(({ claim, compared, differences }) => ({ name: claim, compared, differences })),
    differences: differencesIn(findings),
    notCompared: notComparedIn(findings),
    shown: findings.flatMap(({ claim, shown }) => shown.map((difference) => ({ claim, ...difference }))),
  })
  return { id, since: since?.madeAt, findings, frozen: [...reasons.keys()] }
}

interface Books {
  readonly found: readonly Finding[]
  readonly since: Proof | undefined
}

/** What is new since the last proof, and everything where something differs; what agrees is a new proof. */
async function books(parts: ReconcileParts, { full = false, ...options }: ReconcileOptions): Promise<Books> {
  const connection = await parts.connect()
  using _dropped = { [Symbol.dispose]: () => connection.discard() }
  const { sql } = connection
  const point = await proofPoint(sql, parts.firstId, parts.now())
  const { base } = point
  let since = full || base === undefined || !goesOn(base, parts) ? undefined : base
  let found = await checkBooks(connection, since === undefined ? claims : claimsSince(since), options)
  if (since !== undefined && differencesIn(found) > 0) {
    since = undefined
    found = await checkBooks(connection, claims, options)
  }
  if (differencesIn(found) === 0) await within(CLAIM_MS, prove(sql, point, since === undefined))
  return { found, since }
}

/** Not where all is to be read again, and not of a clock that was ahead: what came since would sort before what it has proven. */
const goesOn = ({ fullAt, untilCall }: Proof, { firstId, now }: ReconcileParts): boolean =>
  Math.abs(now() - fullAt.getTime()) <= FULL_EVERY_MS && untilCall <= firstId(now())
