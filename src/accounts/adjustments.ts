/** Balance that the house gives or takes without a payment: adjustments by operators, and trial credit. */
import { domainToASCII } from "node:url"
import { type Micro, minus, zero } from "../../actors/money/micro.ts"
import { unreachable } from "../../actors/unreachable.ts"
import { networkOf } from "../../actors/network.ts"
import { Failure } from "../failure/failure.ts"
import type { TrialCreditStore, TrialDue } from "../store/allowances.ts"
import type { Database } from "../store/database.ts"
import { takeFree } from "../store/leases.ts"
import { adjust, type Adjustment } from "../store/operator/adjustments.ts"
import type { Act } from "../store/operator/audit.ts"

interface AdjustmentsOptions {
  readonly database: Database
  /** Asks every process for so much of what it has leased of the account and does not need. */
  readonly recall: (accountId: string, amount: Micro) => void
  /** There is more to spend. */
  readonly credited: (accountId: string) => void
}

/** `other`: another one was made under its key. `not free`: calls under way hold the rest. */
type Why = "other" | "too large" | "over balance" | "not free"

/** An adjustment that is refused. Who has other words than the API's goes by `why`. */
export class NotAdjusted extends Failure {
  readonly why: Why

  constructor(why: Why, message: string) {
    super("request.invalid", { message })
    this.why = why
  }
}

export class Adjustments {
  readonly #parts: AdjustmentsOptions

  constructor(parts: AdjustmentsOptions) {
    this.#parts = parts
  }

  /** The balance afterwards; also of an adjustment that was made under this key before. */
  async make(adjustment: Adjustment, act: Act): Promise<Micro | Failure> {
    const { accountId, amountMicro } = adjustment
    const adjusted = await takeFree({
      attempt: () => adjust(this.#parts.database, adjustment, act),
      shortOf: (tried) =>
        tried.outcome === "refused" && amountMicro <= 0n && tried.balanceMicro + amountMicro >= 0n
          ? minus(minus(zero, amountMicro), tried.freeMicro)
          : undefined,
      recall: (amount) => this.#parts.recall(accountId, amount),
    })
    switch (adjusted.outcome) {
      // Also of one that was made under this key before: it may be this one, sent again because its answer was lost.
      case "adjusted":
        if (amountMicro > 0n) this.#parts.credited(accountId)
        return adjusted.balanceMicro
      case "no account":
        return new Failure("resource.not_found")
      case "other":
        return new NotAdjusted(
          "other",
          `'idempotency_key' was used for an adjustment of ${adjusted.amountMicro} micro-rupiah with the reason '${adjusted.reason}'.`,
        )
      case "refused":
        if (amountMicro > 0n)
          return new NotAdjusted("too large", "'amount_micro' would make the balance larger than any can be.")
        if (adjusted.balanceMicro + amountMicro < 0n)
          return new NotAdjusted(
            "over balance",
            `'amount_micro' takes more than the balance, which is ${adjusted.balanceMicro} micro-rupiah: ${adjusted.balanceMicro + amountMicro} would be left.`,
          )
        return new NotAdjusted(
          "not free",
          `'amount_micro' takes more than is free: ${adjusted.freeMicro} micro-rupiah can be taken now; the balance is ${adjusted.balanceMicro}, of which calls under way hold the rest.`,
        )
      default:
        return unreachable(adjusted)
    }
  }
}

export interface TrialCreditLimits {
  readonly amountMicro: Micro
  readonly perNetwork: number
  readonly perDay: number
}

interface TrialCreditOptions {
  /** Undefined where nothing is given. */
  readonly terms: TrialCreditLimits | undefined
  readonly store: TrialCreditStore
  /** The installation's own. */
  readonly secret: () => Promise<Uint8Array>
  /** There is more to spend. */
  readonly credited: (accountId: string) => void
  readonly failed: (error: unknown) => void
}

const DAY_S = 86_400
const NETWORK_S = 30 * DAY_S

/**
 * Trial credit (decisions §13.16): off unless the operator says how much. It is given when an address is proved, once for an
 * address however it is spelt, once for an account, to so many of a network in 30 days and to so many in a day: the house
 * loses no more in a day than the last of these times the amount. Who had it is kept as a keyed hash of the address.
 */
export class TrialCredits {
  readonly #parts: TrialCreditOptions

  constructor(parts: TrialCreditOptions) {
    this.#parts = parts
  }

  /** The allowance of the network from which an address is proved, for the proof to name; undefined where nothing is given. */
  async network(address: string): Promise<string | undefined> {
    if (this.#parts.terms === undefined) return undefined
    return `trial network ${(await this.#hash(`network ${networkOf(address)}`)).toHex()}`
  }

  /**
   * What the account's proof has left due; without an account, what proofs have whose process died before it was given, or whose
   * database failed. Whoever proves an address is not told of a failure: it is tried again.
   */
  async give(accountId?: string): Promise<void> {
    const { store, failed } = this.#parts
    try {
      // One that fails keeps no other from being given.
      for (const due of await store.dues(accountId)) await this.#settle(due).catch(failed)
    } catch (error) {
      failed(error)
    }
  }

  async #settle({ accountId, email, network }: TrialDue): Promise<void> {
    const { terms, store } = this.#parts
    if (terms !== undefined && email !== undefined) await this.#giveOne(terms, { accountId, email, network })
    await store.settled(accountId)
  }

  async #giveOne(terms: TrialCreditLimits, { accountId, email, network }: TrialDue & { readonly email: string }) {
    const { store, credited } = this.#parts
    const addressHash = await this.#hash(`address ${canonical(email)}`)
    const { amountMicro, perNetwork, perDay } = terms
    const limits = {
      network: { name: network, most: perNetwork, seconds: NETWORK_S },
      day: { name: "trial day", most: perDay, seconds: DAY_S },
    }
    if (await store.give({ accountId, addressHash, amountMicro, ...limits })) credited(accountId)
  }

  async #hash(text: string): Promise<Uint8Array> {
    return new Uint8Array(new Bun.CryptoHasher("sha256", await this.#parts.secret()).update(text).digest())
  }
}

/** Providers at which a dot in the name is no difference. */
const DOTLESS = new Map([
  ["gmail.com", "gmail.com"],
  ["googlemail.com", "gmail.com"],
])

/**
 * The one spelling of an address that reaches the same person: case, quotes, angle brackets (of accounts from before they were
 * refused), what follows a plus, and dots where they are nothing; of a host its ASCII form, to which mail goes.
 */
export function canonical(email: string): string {
  // A dotted capital I is small an i with a dot of its own, and for many a database plainly an i.
  const small = email.normalize("NFKC").toLowerCase().replaceAll("i\u0307", "i")
  const lower = small.replaceAll(/[<>]/g, "").trim()
  const at = lower.lastIndexOf("@")
  const name = lower
    .slice(0, at)
    .replaceAll(/["\\]/g, "")
    .replace(/(?<=.)\+.*$/s, "")
  const written = lower.slice(at + 1).replace(/\.$/, "")
  const host = domainToASCII(written) || written
  const dotless = DOTLESS.get(host)
  return dotless === undefined ? `${name}@${host}` : `${name.replaceAll(".", "")}@${dotless}`
}
