/**
 * One reconciliation: the books held against their claims, top-ups against their providers, what differs written down, and
 * the accounts that it is about frozen. It can be broken off at any point and begun anew.
 */
import type { Connection } from "../store/connection.ts"
import type { ReconciliationStore } from "../store/reconciliations.ts"
import { checkBooks } from "./books.ts"
import { differencesIn, type Finding, notComparedIn } from "./finding.ts"
import { comparePayments, type PaymentsParts } from "./payments.ts"

export interface ReconcileParts {
  readonly store: ReconciliationStore
  /** A connection of its own for the long statements. */
  readonly connect: () => Promise<Connection>
  readonly payments: PaymentsParts
  readonly freeze: (accountId: string, reason: string) => Promise<unknown>
}

export interface Reconciliation {
  readonly id: bigint
  readonly findings: readonly Finding[]
  readonly frozen: readonly string[]
}

/** Throws when it could not be done to its end, as when the database does not answer or `signal` ends it. */
export async function reconcile(parts: ReconcileParts, id: bigint, signal: AbortSignal): Promise<Reconciliation> {
  const findings = [...(await books(parts, signal)), await comparePayments(parts.payments, signal)]
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
  return { id, findings, frozen: [...reasons.keys()] }
}

async function books({ connect }: ReconcileParts, signal: AbortSignal): Promise<readonly Finding[]> {
  const connection = await connect()
  using _dropped = { [Symbol.dispose]: () => connection.discard() }
  return await checkBooks(connection, signal)
}
