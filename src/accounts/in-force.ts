/** A change that is told is in force in this process (decisions §13.8), and whoever looks at the account learns of it. */
import { Failure } from "../failure/failure.ts"
import type { OwnedKey } from "../store/account-settings.ts"

/**
 * Sends the live actors of keys the news that their records, or their account's, have changed; called after the commit. True
 * once that is in force in this process, false when it took too long: the change stands (decisions §13.8).
 */
export type KeysChanged = (keys: readonly OwnedKey[]) => Promise<boolean>

/** `answer` once the committed change is in force (decisions §13.8): the next call must not contradict it. */
export async function inForce<T>(keysChanged: KeysChanged, keys: readonly OwnedKey[], answer: T): Promise<T | Failure> {
  if (await keysChanged(keys)) return answer
  return new Failure("dependency.database_unavailable", {
    message: "The change is made, but the gateway has not read it yet; it takes effect when the database answers.",
  })
}

/** Tells whoever looks at an account that something of it, or of its keys, is not what it was; called after the commit. */
export type AccountChanged = (accountId: string) => void
