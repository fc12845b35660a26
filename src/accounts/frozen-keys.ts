/**
 * Hears of accounts that are frozen or unfrozen beside the gateway, by a command or a person with SQL, on the embedded
 * database: from a server a notice comes of it at once. Milliseconds.
 */
import { every } from "../every.ts"
import type { Database } from "../store/database.ts"
import { frozenKeys } from "../store/frozen-keys.ts"

const LOOK_EVERY_MS = 500

export interface FrozenKeysOptions {
  readonly database: Database
  /** Told of each key whose account was frozen or unfrozen since the last look; by its hash as hex. */
  readonly changed: (keyHash: string) => void
  readonly failed: (error: unknown) => void
}

export function watchFrozenKeys({ database, changed, failed }: FrozenKeysOptions): { stop(): Promise<void> } {
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
