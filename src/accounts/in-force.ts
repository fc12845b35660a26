/** Makes committed changes effective in this process before they are reported (decisions §13.8), and notifies open pages. */
import { Failure } from "../failure/failure.ts"
import type { OwnedKey } from "../store/account-settings.ts"

/**
 * Notifies the live actors of keys that their records, or their account's, have changed. Called after the commit. True once the change
 * is effective in this process. False if that took too long; the change stands (decisions §13.8).
 */
export type KeysChanged = (keys: readonly OwnedKey[]) => Promise<boolean>

/** Returns `answer` once the committed change is effective (decisions §13.8), because the next call must not contradict it. */
export async function inForce<T>(keysChanged: KeysChanged, keys: readonly OwnedKey[], answer: T): Promise<T | Failure> {
  if (await keysChanged(keys)) return answer
  return new Failure("dependency.database_unavailable", {
    message: "The change is made, but the gateway has not read it yet; it takes effect when the database answers.",
  })
}

/** Notifies the open pages of an account that the account or its keys have changed. Called after the commit. */
export type AccountChanged = (accountId: string) => void
