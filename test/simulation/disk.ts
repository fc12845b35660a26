/**
 * The local disk of the machine that a world's processes run on: what is on it outlives them. What a process had not
 * finished writing when it died is not there.
 */
import type { Settlement } from "../../actors/ledger.ts"
import type { Withdrawals } from "../../src/store/withdrawals.ts"
import { arrival, type ProcessClock } from "./process-clock.ts"
import type { Stage } from "./stage.ts"

export class SimulatedDisk {
  readonly #stage: Stage
  readonly #kept = new Map<string, Settlement>()

  constructor(stage: Stage) {
    this.#stage = stage
  }

  /** As one process sees it. */
  withdrawals(clock: ProcessClock): Withdrawals {
    return {
      kept: async () => [...this.#kept.values()],
      keep: async (settlement) => {
        await arrival(clock, 1 + this.#stage.delay(20))
        this.#stage.count("withdrawal kept on disk")
        this.#kept.set(settlement.opening.requestId, settlement)
      },
      forget: (requestId) => void this.#kept.delete(requestId),
    }
  }
}
