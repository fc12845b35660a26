/**
 * The periodic tasks of a running gateway. One of them is here as a whole: exchange rates from a file or an address, read on an
 * interval (`EXCHANGE_RATES_FROM`). An invalid source changes nothing. A rate that moved too much is not applied either, because
 * a person must look at it. Both are logged and counted in a metric. Time and bytes are bounded.
 */
import { every } from "../../actors/kernel/clock.ts"
import { microToRupiah } from "../../actors/money/micro.ts"
import { Announcements } from "../accounts/announcement-mails.ts"
import { Deliveries } from "../accounts/deliveries.ts"
import { ownerMailSender, smtpMailer } from "../accounts/owner-mail.ts"
import { isLargeStep, readExchangeRates } from "../catalogue/exchange.ts"
import { firstRequestId } from "../http/edge.ts"
import type { Log } from "../log.ts"
import { alertStore } from "../store/alerts.ts"
import { announcementStore } from "../store/announcements.ts"
import type { Database } from "../store/database.ts"
import { idempotencyKeyStore } from "../store/idempotency-keys.ts"
import { frozenKeys } from "../store/live-keys.ts"
import { makeMonths, removeOverdue } from "../store/retention.ts"
import { backendHistoryStore } from "../store/operator/backend-history.ts"
import { sumCallHours } from "../store/operator/overview.ts"
import { exchangeRateStore, type ExchangeRateStore } from "../store/costs.ts"
import { sumProfitAccounts } from "../store/operator/profit-accounts.ts"
import { countCustomers, sumProfitParts } from "../store/operator/profit-parts.ts"
import { outbox } from "../store/outbox.ts"
import { sessionStore } from "../store/sessions.ts"
import { sumUsageSpans } from "../store/usage-spans.ts"
import { sendsMail } from "./accounts.ts"
import type { Parts } from "./parts.ts"

/** More than what operators are shown of them. */
const MIDDLES_MS = 8 * 24 * 60 * 60_000

interface Chore {
  readonly everyMs: number
  /** The task also runs at the start. */
  readonly atOnce?: true
  readonly work: () => Promise<unknown>
  /** The log line of a failed run. The next run tries again. */
  readonly failed: string
}

interface Senders {
  readonly deliveries: Deliveries
  readonly announcements: Announcements
  /** Aborted when chores are to end. */
  readonly signal: AbortSignal
}

const chores = (
  {
    config,
    log,
    store,
    payments,
    descriptors,
    metrics,
    refreshCatalogue,
    refusedCalls,
    history,
    events,
    spendingAlerts,
    pageOrigins,
    trial,
  }: Parts,
  { deliveries, announcements, signal }: Senders,
): readonly Chore[] => {
  const alerts = alertStore(store.database, sendsMail(config))
  const idempotencyKeys = idempotencyKeyStore(store.database)
  const sendOwnerMails = ownerMailSender({
    smtpUrl: config.SMTP_URL,
    from: config.MAIL_FROM,
    publicUrl: config.PUBLIC_URL,
    database: store.database,
    log,
    signal,
  })
  const source = { store: exchangeRateStore(store.database), log, now: Date.now }
  const onOutcome = (outcome: ExchangeOutcome) => metrics.exchangeRatesRead(outcome)
  const readRates = async () => {
    const { EXCHANGE_RATES_FROM: from } = config
    if (from !== undefined) await readExchangeSource({ ...source, from, onOutcome })
  }
  const keepNoLonger = async () => {
    const removed = await removeOverdue(store.database, { erasedAfterDays: config.ERASE_DELETED_AFTER_DAYS })
    if (removed === undefined) return
    metrics.keptNoLonger(removed)
    if (Object.keys(removed).length > 0) log.info("personal data removed", removed)
  }
  const writeRefused = async () => {
    for (const accountId of await refusedCalls.flush()) events.refused(accountId)
  }
  const sessions = sessionStore(store.database)
  const endSeeing = async () => {
    for (const accountId of await sessions.endOverdueSeeing()) events.accountChanged(accountId)
  }
  const findUnusual = async () => {
    for (const accountId of await spendingAlerts.find(Date.now())) events.unusual(accountId)
  }
  const sumProfit = async () => {
    await sumProfitParts(store.database)
    await countCustomers(store.database)
    await sumProfitAccounts(store.database)
  }
  const backends = backendHistoryStore(store.database, store.process.id)
  const keepMiddles = () => backends.keepMiddles(new Date(Date.now() - MIDDLES_MS))
  return [
    { everyMs: config.EXCHANGE_RATES_EVERY_MS, atOnce: true, work: readRates, failed: "exchange rates not written" },
    { everyMs: 2_000, work: refreshCatalogue, failed: "catalogue not refreshed" },
    { everyMs: 2_000, work: () => descriptors.look(), failed: "descriptors not counted" },
    { everyMs: 2_000, work: sendOwnerMails, failed: "mails to owners not looked for" },
    { everyMs: 4_000, work: () => store.closeDeadProcesses(), failed: "dead processes not closed" },
    { everyMs: 5_000, work: () => payments.topUps.poll(), failed: "payments not polled" },
    { everyMs: 60_000, work: () => idempotencyKeys.removeExpired(), failed: "idempotency keys not removed" },
    { everyMs: 5_000, work: () => payments.refunds.poll(), failed: "refunds not polled" },
    { everyMs: 60_000, atOnce: true, work: sumProfit, failed: "profit not summed" },
    {
      everyMs: 60_000,
      atOnce: true,
      work: () => sumCallHours(store.database, firstRequestId),
      failed: "calls not summed",
    },
    { everyMs: 60_000, atOnce: true, work: () => sumUsageSpans(store.database), failed: "usage not summed" },
    { everyMs: 600_000, atOnce: true, work: () => makeMonths(store.database), failed: "months not made" },
    { everyMs: 600_000, work: keepNoLonger, failed: "personal data not removed" },
    { everyMs: 2_000, work: writeRefused, failed: "refused calls not written" },
    { everyMs: 5_000, work: () => history.flush(), failed: "history of backends not written" },
    { everyMs: 60_000, atOnce: true, work: keepMiddles, failed: "middles of backends not kept" },
    { everyMs: 10 * 60_000, work: () => refusedCalls.removeOld(), failed: "refused calls not removed" },
    { everyMs: 60_000, work: () => trial.give(), failed: "trial credit not given" },
    { everyMs: 5_000, work: endSeeing, failed: "accounts that operators see not looked for" },
    { everyMs: 15_000, work: () => alerts.findLowBalances(), failed: "low balances not looked for" },
    { everyMs: 15_000, work: () => alerts.findBudgets(), failed: "budgets not looked for" },
    { everyMs: 60_000, work: findUnusual, failed: "unusual spending not looked for" },
    { everyMs: 600_000, work: () => spendingAlerts.removeOld(), failed: "old warnings of spending not removed" },
    { everyMs: 5_000, work: () => deliveries.sendMails(), failed: "mails not looked for" },
    { everyMs: 1_000, work: () => deliveries.beginWebhooks(), failed: "webhooks not looked for" },
    { everyMs: 60_000, work: () => deliveries.sweep(), failed: "outbox not swept" },
    // A changed list is announced by a notice, but an expired key or a frozen account is not.
    { everyMs: 60_000, atOnce: true, work: () => pageOrigins.refresh(), failed: "origins not read" },
    { everyMs: 60_000, work: () => announcements.look(), failed: "announcements not looked for" },
  ]
}

function openDeliveries({ config, log, store }: Parts): Deliveries {
  return new Deliveries({
    outbox: outbox(store.database, sendsMail(config)),
    mailer: sendsMail(config) ? smtpMailer({ url: config.SMTP_URL, from: config.MAIL_FROM }) : undefined,
    log,
  })
}

/** Stopping starts no further run, and resolves when the current ones have ended. */
export async function startChores(parts: Parts): Promise<{ stop(): Promise<void> }> {
  const { config, log, store, gateway, daily } = parts
  const deliveries = openDeliveries(parts)
  const announcements = new Announcements(announcementStore(store.database), sendsMail(config))
  const stopping = new AbortController()
  const senders = { deliveries, announcements, signal: stopping.signal }
  const running = chores(parts, senders).map(({ everyMs, atOnce, work, failed }) => {
    const once = async () => {
      await work().catch((error: unknown) => log.warn(failed, { error: String(error) }))
    }
    return every(everyMs, once, atOnce)
  })
  // A database server sends notices of frozen keys.
  if (config.DATABASE_URL === undefined)
    running.push(
      watchFrozenKeys({
        database: store.database,
        changed: (keyHash) => gateway.ports.actors.keys.changed(keyHash),
        failed: (error) => log.warn("key not read again", { error: String(error) }),
      }),
    )
  await daily.start()
  return {
    async stop() {
      stopping.abort()
      announcements.stop()
      await Promise.all([...running, daily, deliveries].map((chore) => chore.stop()))
    },
  }
}

const LOOK_EVERY_MS = 500

interface FrozenKeysOptions {
  readonly database: Database
  /** Called with each key whose account was frozen or unfrozen since the last run: its hash in hex. */
  readonly changed: (keyHash: string) => void
  readonly failed: (error: unknown) => void
}

/**
 * Finds accounts that a command or a person with SQL has frozen or unfrozen on the embedded database. A database server sends a notice
 * at once.
 */
function watchFrozenKeys({ database, changed, failed }: FrozenKeysOptions): { stop(): Promise<void> } {
  let before: ReadonlySet<string> = new Set()
  return every(LOOK_EVERY_MS, async () => {
    try {
      const now = await frozenKeys(database)
      for (const keyHash of now.symmetricDifference(before)) changed(keyHash)
      before = now
    } catch (error) {
      failed(error)
    }
  })
}

export type ExchangeOutcome = "same" | "changed" | "jump" | "failed"

export interface ExchangeSource {
  /** `https://…`, or the absolute path of a file. */
  readonly from: string
  readonly store: ExchangeRateStore
  readonly log: Pick<Log, "info" | "warn">
  readonly now: () => number
  readonly onOutcome: (outcome: ExchangeOutcome) => void
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>
}

const ANSWER_MS = 10_000
const LARGEST_BYTES = 1_048_576
/** Every process knows a rate this long before it takes effect. */
const LEAD_MS = 3_000

/** Reads the source once. Never rejects because of the source. The caller reports a database that is unreachable. */
export async function readExchangeSource(source: ExchangeSource): Promise<void> {
  const { store, log, onOutcome } = source
  const needed = await store.needed()
  if (needed.length === 0) return onOutcome("same")
  const read = await readRates(source)
  const rates = typeof read === "string" ? read : readExchangeRates(read.json, needed)
  if (typeof rates === "string") {
    log.warn("exchange rates not read", { error: rates })
    return onOutcome("failed")
  }
  const known = await store.list(1)
  let outcome: ExchangeOutcome = "same"
  for (const [currency, unit] of rates) {
    const last = known.find((rate) => rate.currency === currency)
    if (last !== undefined && isLargeStep(last.unit, unit)) {
      log.warn("exchange rate jumped", { currency, from: microToRupiah(last.unit), to: microToRupiah(unit) })
      outcome = "jump"
      continue
    }
    const effectiveAt = new Date(source.now() + LEAD_MS)
    if (await store.fetched({ currency, unit, effectiveAt })) {
      log.info("exchange rate changed", { currency, rupiah: microToRupiah(unit) })
      if (outcome === "same") outcome = "changed"
    }
  }
  onOutcome(outcome)
}

/** The source's rates, or why they could not be read. The reason never quotes the source, which may be a stranger's page. */
async function readRates({ from, fetch: ask = fetch }: ExchangeSource): Promise<{ readonly json: unknown } | string> {
  try {
    const text = from.startsWith("/")
      ? await textOf(Bun.file(from).stream())
      : await answered(await ask(from, { redirect: "error", signal: AbortSignal.timeout(ANSWER_MS) }))
    return text === undefined ? `more than ${LARGEST_BYTES} bytes` : { json: JSON.parse(text) }
  } catch (error) {
    return error instanceof SyntaxError ? "not JSON" : String(error)
  }
}

async function answered(response: Response): Promise<string | undefined> {
  if (response.ok && response.body !== null) return await textOf(response.body)
  await response.body?.cancel()
  throw new Error(`status ${response.status}`)
}

/** Undefined if it is too long. */
async function textOf(body: ReadableStream<Uint8Array>): Promise<string | undefined> {
  const reader = body.getReader()
  const pieces: Uint8Array[] = []
  let size = 0
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
    size += piece.value.length
    if (size > LARGEST_BYTES) {
      await reader.cancel()
      return undefined
    }
    pieces.push(piece.value)
  }
  return Buffer.concat(pieces).toString("utf8")
}
