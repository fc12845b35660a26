/**
 * Takes back a call whose client is about to be told that nothing is charged, while the database may have booked it or may
 * still: the ledger voids it, and until that is durable it is kept on the local disk, for the case that this process dies.
 */
import type { Settlement } from "../../actors/ledger.ts"
import type { Withdrawals } from "../store/withdrawals.ts"
import type { Actors } from "./actors.ts"

/** Resolves when it is safe to tell. */
export async function withdraw(actors: Actors, withdrawals: Withdrawals, settlement: Settlement): Promise<void> {
  const { requestId } = settlement.opening
  actors.ledger.void(settlement)
  actors.ledger.whenDurable(() => withdrawals.forget(requestId))
  await withdrawals.keep(settlement)
}

/** Before the first call: what processes before this one told their clients is made true. */
export async function withdrawKept({ ledger }: Pick<Actors, "ledger">, withdrawals: Withdrawals): Promise<number> {
  const kept = await withdrawals.kept()
  const durable = () => new Promise<void>((resolve) => ledger.whenDurable(resolve))
  // Twice: what a dead process sent last may still be at work in the database, and a statement that waited for it has not
  // seen what it booked.
  for (let n = 0; n < 2 && kept.length > 0; n++) {
    for (const settlement of kept) ledger.void(settlement)
    await durable()
  }
  for (const { opening } of kept) withdrawals.forget(opening.requestId)
  return kept.length
}
