/** What a running gateway does again and again beside its calls. */
import { lowBalanceTeller } from "../accounts/low-balance.ts"
import { every } from "../every.ts"
import type { Database } from "../store/database.ts"
import { frozenKeys } from "../store/frozen-keys.ts"
import { exchangeRateStore } from "../store/operator/exchange-rates.ts"
import { type ExchangeOutcome, readExchangeSource } from "./exchange-rates.ts"
import type { Parts } from "./parts.ts"

interface Chore {
  readonly everyMs: number
  /** At the start too. */
  readonly atOnce?: true
  readonly work: () => Promise<unknown>
  /** The log line of a time that failed; the next one tries again. */
  readonly failed: string
}

const chores = ({ config, log, store, payments, descriptors, metrics, refreshCatalogue }: Parts): readonly Chore[] => {
  const tellLowBalances = lowBalanceTeller({
    smtpUrl: config.SMTP_URL,
    from: config.MAIL_FROM,
    database: store.database,
    log,
  })
  const source = { store: exchangeRateStore(store.database), log, now: Date.now }
  const told = (outcome: ExchangeOutcome) => metrics.exchangeRatesRead(outcome)
  const readRates = async () => {
    const { EXCHANGE_RATES_FROM: from } = config
    if (from !== undefined) await readExchangeSource({ ...source, from, told })
  }
  return [
    { everyMs: config.EXCHANGE_RATES_EVERY_MS, atOnce: true, work: readRates, failed: "exchange rates not written" },
    { everyMs: 2_000, work: refreshCatalogue, failed: "catalogue not refreshed" },
    { everyMs: 2_000, work: () => descriptors.look(), failed: "descriptors not counted" },
    { everyMs: 5_000, work: () => store.closeDeadProcesses(), failed: "dead processes not closed" },
    { everyMs: 5_000, work: () => payments.topUps.poll(), failed: "payments not polled" },
    { everyMs: 15_000, work: tellLowBalances, failed: "low balances not looked for" },
  ]
}

/** Stopping begins no chore any more, and resolves when those under way have ended. */
export async function startChores(parts: Parts): Promise<{ stop(): Promise<void> }> {
  const { config, log, store, gateway, daily } = parts
  const running = chores(parts).map(({ everyMs, atOnce, work, failed }) => {
    const once = async () => {
      await work().catch((error: unknown) => log.warn(failed, { error: String(error) }))
    }
    return every(everyMs, once, atOnce)
  })
  // A server's database gives notice of frozen keys.
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
      await Promise.all([...running, daily].map((chore) => chore.stop()))
    },
  }
}

const LOOK_EVERY_MS = 500

interface FrozenKeysOptions {
  readonly database: Database
  /** Called with each key whose account was frozen or unfrozen since the last look; by its hash as hex. */
  readonly changed: (keyHash: string) => void
  readonly failed: (error: unknown) => void
}

/**
 * Finds accounts that are frozen or unfrozen beside the gateway, by a command or a person with SQL, on the embedded database:
 * from a server a notice comes of it at once.
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
