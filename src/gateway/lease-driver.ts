/**
 * Carries out what a leased purse begins. Every statement ends in one piece of news for the purse. An error is news too, so
 * no purse waits for a statement that has ended.
 */
import { Account, type AccountCommand } from "../../actors/account.ts"
import type { Behaviour } from "../../actors/kernel/actor.ts"
import type { Clock } from "../../actors/kernel/clock.ts"
import type { Growth, LeaseDriver, LeaseNews, VersionedLease } from "../../actors/lease.ts"
import { type Micro, zero } from "../../actors/money/micro.ts"
import { type BreakerPurses, ownerOf } from "../store/breaker-purses.ts"
import { DatabaseUnavailable } from "../store/database.ts"

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

interface StartParts {
  readonly clock: Clock
  readonly purses: BreakerPurses
  /** Resolves when all is durable that was sent to the ledger of an account. */
  readonly written: (accountId: string) => Promise<void>
  readonly failed: (what: string, error: unknown) => void
  /** A start failed: what is leased may be in nobody's hands, as of an account. */
  readonly startAgain: (purse: string) => void
}

/** Starts the purses of breakers, each on the lease that this process has on it. */
export function startBreaker({ clock, purses, written, failed, startAgain }: StartParts) {
  const openLease = async (purse: string) => {
    await written(ownerOf(purse).accountId)
    // Of a lease that is open already this reads what there is.
    return await purses.grow(purse, zero, 0)
  }
  return async (purse: string, tell: (command: AccountCommand) => void): Promise<Behaviour<AccountCommand>> => {
    const opened = await openLease(purse).catch((error: unknown) => {
      startAgain(purse)
      throw error
    })
    if (opened === undefined) throw new DatabaseUnavailable("this process was closed by another")
    const self = (news: LeaseNews) => tell({ type: "lease", news })
    const driver = leaseDriver({
      what: "breaker",
      async grow(short, version) {
        const grown = await purses.grow(purse, short, version)
        if (grown === undefined) throw new Error("this process was closed by another")
        return grown
      },
      giveBack: (returned) => purses.giveBack(purse, returned),
      written: () => written(ownerOf(purse).accountId),
      tell: self,
      failed,
    })
    return new Account({ clock, self, ...driver }, opened.lease, opened.more)
  }
}
