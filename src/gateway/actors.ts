/**
 * The actors that a call meets, and how an ask's three outcomes read to it: a value, or a failure. An unknown outcome is
 * made up for by the admission's release, which is right whether or not the ask was handled.
 */
import type { AccountCommand } from "../../actors/account.ts"
import type { Actor, Outcome } from "../../actors/kernel/actor.ts"
import type { Registry } from "../../actors/kernel/registry.ts"
import type { KeyCommand, KeyView } from "../../actors/key.ts"
import type { LedgerCommand } from "../../actors/ledger.ts"
import type { SlotsCommand } from "../../actors/slots.ts"
import { Failure } from "../failure/failure.ts"
import { DatabaseUnavailable } from "../store/database.ts"

export interface Actors {
  /** By the hex SHA-256 of the key. */
  readonly keys: Registry<KeyCommand>
  /** By account id. */
  readonly accounts: Registry<AccountCommand>
  /** By catalogue id. */
  readonly models: Registry<SlotsCommand>
  /** The whole gateway's slots. */
  readonly gate: Actor<SlotsCommand>
  readonly ledger: Actor<LedgerCommand>
}

/** What a key's actor says of its limits, if it is there and answers. */
export async function keyView(actors: Actors, keyHash: Uint8Array): Promise<KeyView | undefined> {
  const id = Buffer.from(keyHash).toString("hex")
  const outcome = await actors.keys.askIfActive<KeyView>(id, (reply) => ({ type: "view", reply }))
  return outcome?.kind === "ok" ? outcome.value : undefined
}

/** How long whoever has changed a key waits until that is in force here. */
const IN_FORCE_MS = 2_000

/**
 * Whether what was committed of these keys is in force in this process: each actor that is there has read its key again,
 * and one that starts later reads it anyway. Calls that came before stay. Told and not asked, because an ask that is late
 * is never handled: an actor that could not read in time goes on trying.
 */
export async function keysInForce(actors: Actors, keyHashes: readonly string[]): Promise<boolean> {
  const read = keyHashes.map(
    (id) =>
      new Promise<void>((resolve) => {
        const isThere = actors.keys.tellIfActive(id, { type: "changed", reply: () => resolve() })
        if (!isThere) resolve()
      }),
  )
  const late = Promise.withResolvers<false>()
  const timer = setTimeout(() => late.resolve(false), IN_FORCE_MS)
  const inForce = await Promise.race([Promise.all(read).then(() => true), late.promise])
  clearTimeout(timer)
  return inForce
}

export function valueOf<T>(outcome: Outcome<T>): T | Failure {
  if (outcome.kind === "ok") return outcome.value
  if (outcome.kind === "unknown") {
    // A turn ends at once; what is not answered in time waits for a lease to grow, and so for the database.
    return new Failure(outcome.reason === "deadline" ? "dependency.database_unavailable" : "internal.error")
  }
  if (outcome.reason === "full" || outcome.reason === "late") return new Failure("gateway.capacity", { retryAfterS: 1 })
  // An actor that cannot start, or not in time, waits for the database.
  const waits = outcome.reason === "unavailable" && outcome.cause === undefined
  if (waits || outcome.cause instanceof DatabaseUnavailable) return new Failure("dependency.database_unavailable")
  return new Failure("internal.error")
}
