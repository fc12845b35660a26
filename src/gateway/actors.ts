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

export function valueOf<T>(outcome: Outcome<T>): T | Failure {
  if (outcome.kind === "ok") return outcome.value
  if (outcome.kind === "unknown") return new Failure("internal.error")
  if (outcome.reason === "full" || outcome.reason === "late") return new Failure("gateway.capacity", { retryAfterS: 1 })
  // An actor that cannot start, or not in time, waits for the database.
  const waits = outcome.reason === "unavailable" && outcome.cause === undefined
  if (waits || outcome.cause instanceof DatabaseUnavailable) return new Failure("dependency.database_unavailable")
  return new Failure("internal.error")
}
