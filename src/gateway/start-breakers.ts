/** Starts the purses of breakers, each on the lease that this process has on it. */
import { Account, type AccountCommand } from "../../actors/account.ts"
import type { Clock } from "../../actors/kernel/clock.ts"
import type { Behaviour } from "../../actors/kernel/actor.ts"
import type { LeaseNews } from "../../actors/lease.ts"
import { zero } from "../../actors/money/micro.ts"
import { type BreakerPurses, ownerOf } from "../store/breaker-purses.ts"
import { DatabaseUnavailable } from "../store/database.ts"
import { leaseDriver } from "./lease-driver.ts"

interface StartParts {
  readonly clock: Clock
  readonly purses: BreakerPurses
  /** Resolves when all is durable that was sent to the ledger of an account. */
  readonly written: (accountId: string) => Promise<void>
  readonly failed: (what: string, error: unknown) => void
  /** A start failed: what is leased may be in nobody's hands, as of an account. */
  readonly startAgain: (purse: string) => void
}

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
