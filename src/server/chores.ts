/** What a running gateway does again and again beside its calls. */
import { lowBalanceTeller } from "../accounts/low-balance.ts"
import { every } from "../every.ts"
import type { Database } from "../store/database.ts"
import { frozenKeys } from "../store/frozen-keys.ts"
import type { Parts } from "./parts.ts"

interface Chore {
  readonly everyMs: number
  readonly work: () => Promise<unknown>
  /** The log line of a time that failed; the next one tries again. */
  readonly failed: string
}

const chores = ({ config, log, store, payments, descriptors, refreshCatalogue }: Parts): readonly Chore[] => {
  const tellLowBalances = lowBalanceTeller({
    smtpUrl: config.SMTP_URL,
    from: config.MAIL_FROM,
    database: store.database,
    log,
  })
  return [
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
  const running = chores(parts).map(({ everyMs, work, failed }) =>
    every(everyMs, async () => {
      await work().catch((error: unknown) => log.warn(failed, { error: String(error) }))
    }),
  )
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
