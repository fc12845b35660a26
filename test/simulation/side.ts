/**
 * One of the books that moves are made on, and what the world's calls, leases and price versions are called there.
 * Micro-rupiah.
 */
import type { Opening, Settlement, UsageRecord } from "../../actors/ledger.ts"
import { micro, zero } from "../../actors/money/micro.ts"
import { noTokens, price, type Rates, type Tokens } from "../../actors/money/price.ts"
import { purseOf } from "../../src/store/breakers.ts"
import type { Books } from "./books.ts"

/** A call as it is told the ledger; nothing of it ever changes. */
export interface Call {
  readonly requestId: string
  readonly process: string
  readonly account: number
  readonly key: number
  /** The how manieth lease, and price version. */
  readonly lease: number
  readonly price: number
  readonly status: UsageRecord["status"]
  readonly tokens: Tokens
  readonly absorbed: bigint
  /** The part of `absorbed` that its tokens do not explain. */
  readonly excess: bigint
  /** Whether it is one of the run's. */
  readonly run: boolean
  /** Whether it is under its key's ceiling and its account's. */
  readonly breakers: boolean
  readonly markers: number
  readonly later: boolean
}

export const rates: readonly Rates[] = [
  { input: micro(1n), output: micro(5n), cacheRead: micro(1n), cacheWrite: micro(2n) },
  { input: micro(2n), output: micro(7n), cacheRead: zero, cacheWrite: micro(3n) },
]
export const DAY = 86_400_000
export const NOW = Date.UTC(2026, 10, 20, 1)
export const startsOf = (later: boolean) => ({
  daily: Date.UTC(2026, 10, 19, 17) + (later ? 12 * DAY : 0),
  monthly: Date.UTC(2026, later ? 10 : 9, later ? 30 : 31, 17),
  total: 0,
})

/** Of the keys: the second is a child of the first. */
export const [PARENT, CHILD] = [0, 2] as const

export const keyHash = (key: number) => `${key}a`.padStart(64, "0")

/** One of the books, and what the world's leases and price versions are called there. */
export class Side {
  readonly books: Books
  readonly #leaseIds: bigint[] = []
  readonly #priceIds: bigint[] = []

  constructor(books: Books) {
    this.books = books
  }

  /** An id that no lease has, if there is none. */
  leaseId(lease: number): bigint {
    return this.#leaseIds[lease] ?? 0n
  }

  leaseOf(id: bigint): number {
    const known = this.#leaseIds.indexOf(id)
    return known >= 0 ? known : this.#leaseIds.push(id) - 1
  }

  priceOf(id: bigint): number {
    return this.#priceIds.indexOf(id)
  }

  async addPrice(terms: Rates, effectiveAt: number): Promise<number> {
    return this.#priceIds.push(await this.books.addPrice("m", terms, effectiveAt)) - 1
  }

  lease<L extends { id: bigint }>(lease: L | undefined) {
    return lease && { ...lease, id: this.leaseOf(lease.id) }
  }

  grown<G extends { lease: { id: bigint } }>(grown: G | undefined) {
    return grown && { ...grown, lease: this.lease(grown.lease) }
  }

  opening(call: Call): Opening {
    return {
      requestId: call.requestId,
      accountId: `acc_${call.account}`,
      keyId: `key_${call.key}`,
      leaseId: this.leaseId(call.lease),
      model: "m",
      endpoint: "chat",
      streamed: true,
      hold: micro(700n),
      priceId: this.#priceIds[call.price]!,
      openedAt: NOW,
      starts: startsOf(call.later),
      parent:
        call.key === CHILD
          ? { keyId: `key_${PARENT}`, keyHash: keyHash(PARENT), starts: startsOf(call.later) }
          : undefined,
      breakers: call.breakers
        ? [purseOf(`acc_${call.account}`, `key_${call.key}`), purseOf(`acc_${call.account}`)]
        : undefined,
      runId: call.run ? "run_0" : undefined,
    }
  }

  settlement(call: Call, voided: boolean): Settlement {
    const absorbed = voided ? zero : micro(call.absorbed)
    const excess = voided ? zero : micro(call.excess)
    const charge = voided ? zero : micro(price(call.tokens, rates[call.price % rates.length]!) + excess - absorbed)
    const status = voided ? "billing_error" : call.status
    const final = this.#record(call, {
      part: 0,
      status,
      tokens: call.tokens,
      charge,
      absorbed,
      excess,
      flagged: voided,
    })
    const markers = Array.from({ length: call.markers }, (_, index) =>
      this.#record(call, {
        part: index + 1,
        status: "fallback_429",
        tokens: noTokens,
        charge: zero,
        absorbed: zero,
        excess: zero,
        flagged: false,
      }),
    )
    return { opening: this.opening(call), records: [final, ...markers], voided }
  }

  #record(
    call: Call,
    fields: Pick<UsageRecord, "part" | "status" | "tokens" | "charge" | "absorbed" | "excess" | "flagged">,
  ): UsageRecord {
    return {
      ...fields,
      model: "m",
      priceId: this.#priceIds[call.price]!,
      turns: 1,
      attempts: 1,
      errorCode: fields.status === "ok" ? undefined : "dependency.upstream_unavailable",
      firstTokenMs: 3,
      durationMs: 8,
      member: `first/only/m-${call.price}`,
      // Of some it is not known.
      cost: call.markers > 0 && fields.part === 0 ? undefined : micro(BigInt(fields.tokens.output) + 3n),
    }
  }
}
