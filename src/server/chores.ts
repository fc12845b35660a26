/** What a running gateway does again and again beside its calls. */
import { watchFrozenKeys } from "../accounts/frozen-keys.ts"
import { lowBalanceTeller } from "../accounts/low-balance.ts"
import { every } from "../every.ts"
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
