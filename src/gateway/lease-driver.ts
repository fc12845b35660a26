/**
 * Carries out what a leased purse begins. Every statement ends in one piece of news for the purse. An error is news too, so
 * no purse waits for a statement that has ended.
 */
import type { Growth, LeaseDriver, LeaseNews, VersionedLease } from "../../actors/lease.ts"
import type { Micro } from "../../actors/money/micro.ts"

export interface LeaseStatements {
  /** What is leased: a word for the log. */
  readonly what: "account" | "budget" | "breaker"
  /** Rejects when the outcome is not known, or when the lease is not this purse's any more. */
  readonly grow: (short: Micro, version: number) => Promise<Growth>
  /** `returned` is cumulative. Undefined when the lease was given back whole, with its process. */
  readonly giveBack: (returned: Micro) => Promise<VersionedLease | undefined>
  /** Resolves when all is durable that was sent to the ledger. */
  readonly written: () => Promise<void>
  readonly tell: (news: LeaseNews) => void
  /** A statement failed. */
  readonly failed: (what: string, error: unknown) => void
}

export function leaseDriver({ what, grow, giveBack, written, tell, failed }: LeaseStatements): LeaseDriver {
  const begin = (named: string, statement: () => Promise<LeaseNews>, otherwise: LeaseNews) =>
    void statement()
      .catch((error: unknown) => {
        failed(`${what} ${named}`, error)
        return otherwise
      })
      .then(tell)
  return {
    grow: (short, version) =>
      begin("not grown", async () => ({ type: "grown", ...(await grow(short, version)) }), { type: "not-grown" }),
    giveBack: (returned, recount) =>
      begin(
        "not given back",
        async () => {
          if (recount) await written()
          const lease = await giveBack(returned)
          return lease === undefined ? { type: "not-returned" } : { type: "returned", lease }
        },
        { type: "not-returned" },
      ),
  }
}
