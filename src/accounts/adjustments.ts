/**
 * Balance that operators give and take. What a gateway process has leased and does not need is called back before a debit is
 * refused: a process that is alone leases all there is.
 */
import { type Micro, minus, zero } from "../../actors/money/micro.ts"
import { Failure } from "../failure/failure.ts"
import type { Database } from "../store/database.ts"
import type { Act } from "../store/operator/audit.ts"
import { adjust, type Adjustment } from "../store/operator/adjustments.ts"

export interface AdjustmentsParts {
  readonly database: Database
  /** Asks every process for so much of what it has leased of the account and does not need. */
  readonly recall: (accountId: string, amount: Micro) => void
  /** There is more to spend. */
  readonly credited: (accountId: string) => void
}

/** How often, and how many milliseconds apart, what was called back is looked for. */
const LOOKS = 10
const LOOK_MS = 100

export class Adjustments {
  readonly #parts: AdjustmentsParts

  constructor(parts: AdjustmentsParts) {
    this.#parts = parts
  }

  /** The balance afterwards; also of an adjustment that was made under this key before. */
  async make(adjustment: Adjustment, act: Act): Promise<Micro | Failure> {
    const { accountId, amountMicro } = adjustment
    for (let looks = 0; ; looks++) {
      const adjusted = await adjust(this.#parts.database, adjustment, act)
      switch (adjusted.outcome) {
        case "adjusted":
          if (amountMicro > 0n) this.#parts.credited(accountId)
          return adjusted.balanceMicro
        case "adjusted before":
          return adjusted.balanceMicro
        case "no account":
          return new Failure("resource.not_found")
        case "other":
          return invalid(
            `'idempotency_key' was used for an adjustment of ${adjusted.amountMicro} micro-rupiah with the reason '${adjusted.reason}'.`,
          )
        case "refused":
          if (amountMicro > 0n) return invalid("'amount_micro' would make the balance larger than any can be.")
          if (looks === LOOKS || adjusted.balanceMicro + amountMicro < 0n)
            return invalid(
              `'amount_micro' takes more than is free: ${adjusted.freeMicro} micro-rupiah can be taken now; the balance is ${adjusted.balanceMicro}, of which calls under way hold the rest.`,
            )
          // Asked once: a process that was in use then gives what a call's end frees.
          if (looks === 0) this.#parts.recall(accountId, minus(minus(zero, amountMicro), adjusted.freeMicro))
          await Bun.sleep(LOOK_MS)
      }
    }
  }
}

const invalid = (message: string): Failure => new Failure("request.invalid", { message })
