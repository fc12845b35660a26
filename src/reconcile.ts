/**
 * `loket reconcile`: one reconciliation, asked for by a person, beside whatever runs on the database. Prints what was
 * compared and what differs. And the daily one of a gateway's process, of the same parts.
 */
import { nanoid } from "nanoid"
import { microToRupiah } from "../actors/money/micro.ts"
import type { Config } from "./config.ts"
import type { Log } from "./log.ts"
import { besideGateways, openPayments, type Payments } from "./payments/top-ups.ts"
import { firstRequestId } from "./http/edge.ts"
import { problemJson } from "./http/operator/payments.ts"
import {
  CLAIM_MS,
  counted,
  Daily,
  type Progress,
  reconcile,
  type ReconcileParts,
  reportJson,
  reportText,
} from "./reconciliation/reconcile.ts"
import { differencesIn } from "./reconciliation/claim.ts"
import { accountStore, type FreezeAct } from "./store/accounts.ts"
import type { Database } from "./store/database.ts"
import { paymentViews, type StoredProblem } from "./store/operator/payments.ts"
import type { PaymentProblem } from "./store/payment-problems.ts"
import { openExisting } from "./store/open.ts"
import { reconciliationStore } from "./store/reconciliations.ts"
import type { Servers } from "./store/servers.ts"

const CONNECT_MS = 5_000

interface Parts {
  readonly config: Config
  readonly servers: Servers
  readonly database: Database
  readonly payments: Payments
  readonly freeze: (accountId: string, reason: string, act: FreezeAct) => Promise<unknown>
}

const reconcileParts = ({ config, servers, database, payments, freeze }: Parts): ReconcileParts => ({
  store: reconciliationStore(database),
  connect: () => servers.connect({ timeoutMs: CONNECT_MS, statementTimeoutMs: CLAIM_MS + 1_000 }),
  payments: { ...payments, days: config.RECONCILE_TOP_UP_DAYS, now: Date.now },
  // Nobody's act but the gateway's own, by which the audit log's page knows it.
  freeze: (accountId, reason, found) =>
    freeze(accountId, reason, {
      requestId: `reconciliation_${nanoid()}`,
      operatorId: undefined,
      address: undefined,
      found,
    }),
  firstId: firstRequestId,
  now: Date.now,
})

/** That of a gateway's process, to be started. */
export function dailyReconciliation(parts: Parts & { readonly processId: string; readonly log: Log }): Daily {
  const reconciling = reconcileParts(parts)
  return new Daily({
    hour: parts.config.RECONCILE_HOUR,
    processId: parts.processId,
    store: reconciling.store,
    reconcile: (id, signal) => reconcile(reconciling, id, { signal }),
    now: Date.now,
    log: parts.log,
  })
}

export interface ReconcileTerms {
  readonly json: boolean
  readonly print: (text: string) => void
  /** Everything, whatever was proven. */
  readonly full?: boolean
  readonly progress?: Progress
}

/** The command's exit code: 1 when something differs. Throws when it could not be done. */
export async function reconcileBooks(config: Config, { json, print, full, progress }: ReconcileTerms): Promise<0 | 1> {
  const { servers, database, close } = await openExisting(config)
  try {
    // Gateways hear of a credit by the database's own notice.
    const payments = openPayments(config, database, besideGateways(database))
    const accounts = accountStore(database)
    const parts = reconcileParts({ config, servers, database, payments, freeze: (...one) => accounts.freeze(...one) })
    const done = await reconcile(parts, await parts.store.begin(), {
      signal: new AbortController().signal,
      full,
      progress,
    })
    // Who compares no top-ups, as of a copy, asks nothing about payments.
    const page = { all: false, before: undefined, limit: PROBLEMS + 1 }
    const problems = config.RECONCILE_TOP_UP_DAYS === 0 ? [] : await paymentViews(database).problems(page)
    print(
      json
        ? JSON.stringify({ ...reportJson(done), payment_problems: problems.slice(0, PROBLEMS).map(problemJson) })
        : [reportText(done), ...problemsText(problems)].join("\n"),
    )
    return differencesIn(done.findings) === 0 ? 0 : 1
  } finally {
    await close()
  }
}

/** How many payment problems are printed. */
const PROBLEMS = 100

const whatToDo: Readonly<Record<PaymentProblem["kind"], string>> = {
  unknown_order:
    "it is no top-up of this database: find out at the provider whose it is, and pay it back or give it with `loket account adjust`",
  wrong_amount: "nothing was credited: pay it back at the provider, or give it with `loket account adjust`",
  mismatch:
    "nothing was credited, because the provider does not say what the notification says: look at the provider's own pages",
  chargeback: "the payer's bank took it back, and that is booked: look at the account before it spends more",
  over_refunded:
    "what went back over all that was paid is not booked: cancel a refund of the top-up that waits to be paid out, which books it, and take what is left with `loket account adjust`",
  closed_account: "nobody can spend it: refund the top-up on the account's page",
}

function problemsText(problems: readonly StoredProblem[]): string[] {
  if (problems.length === 0) return []
  const shown = problems.slice(0, PROBLEMS)
  const count =
    problems.length > shown.length
      ? `more than ${counted(PROBLEMS, "payment problem")}`
      : counted(problems.length, "payment problem")
  return [
    "",
    `${count} ${problems.length === 1 ? "waits" : "wait"} to be resolved:`,
    ...shown.flatMap(({ id, kind, paid, overMicro, provider, reference, accountId }) => [
      `  ${id}: ${kind}, ${paid}${overMicro === undefined ? "" : `, over by Rp ${microToRupiah(overMicro)}`}, ${provider} ${reference}${accountId === undefined ? "" : ` of ${accountId}`}`,
      `    ${whatToDo[kind]}`,
    ]),
    "then say what was done: loket topup resolve <number> --note <what was done>",
  ]
}
