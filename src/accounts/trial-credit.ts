/**
 * Trial credit (decisions §13.16): off unless the operator says how much. It is given when an address is proved, once for an address
 * however it is spelt, once for an account, to so many of a network in 30 days and to so many in a day: the house loses no
 * more in a day than the last of these times the amount. Who had it is kept as a keyed hash of the address.
 */
import { domainToASCII } from "node:url"
import type { Micro } from "../../actors/money/micro.ts"
import type { AllowanceStore } from "../store/allowances.ts"
import type { TrialCreditStore, TrialDue } from "../store/trial-credits.ts"
import { networkOf } from "./network.ts"

export interface TrialTerms {
  readonly amountMicro: Micro
  readonly perNetwork: number
  readonly perDay: number
}

export interface TrialCreditParts {
  /** Undefined where nothing is given. */
  readonly terms: TrialTerms | undefined
  readonly store: TrialCreditStore
  readonly allowances: AllowanceStore
  /** The installation's own. */
  readonly secret: () => Promise<Uint8Array>
  /** There is more to spend. */
  readonly credited: (accountId: string) => void
  readonly failed: (error: unknown) => void
}

const DAY_S = 86_400
const NETWORK_S = 30 * DAY_S

export class TrialCredits {
  readonly #parts: TrialCreditParts

  constructor(parts: TrialCreditParts) {
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
    const { terms, store, failed } = this.#parts
    try {
      for (const due of await store.dues(accountId)) {
        if (terms !== undefined && due.email !== undefined) await this.#giveOne(terms, { ...due, email: due.email })
        await store.settled(due.accountId)
      }
    } catch (error) {
      failed(error)
    }
  }

  async #giveOne(terms: TrialTerms, { accountId, email, network }: TrialDue & { readonly email: string }) {
    const { store, allowances, credited } = this.#parts
    const addressHash = await this.#hash(`address ${canonical(email)}`)
    if (await store.wasGiven({ accountId, addressHash })) return
    // The network first: one that has had its share takes nothing from everybody's day.
    const { perNetwork, perDay } = terms
    if ((await allowances.take({ name: network, most: perNetwork, seconds: NETWORK_S })) !== undefined) return
    if ((await allowances.take({ name: "trial day", most: perDay, seconds: DAY_S })) !== undefined) return
    if (await store.give({ accountId, addressHash, amountMicro: terms.amountMicro })) credited(accountId)
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
 * The one spelling of an address that reaches the same person: case, quotes, what follows a plus, and dots where they are nothing; of a
 * host its ASCII form, to which mail goes.
 */
export function canonical(email: string): string {
  const lower = email.normalize("NFKC").toLowerCase().trim()
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
