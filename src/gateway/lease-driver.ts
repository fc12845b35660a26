/**
 * Carries out what a leased purse begins, and starts actors that lease again after a crash. Every statement ends in one piece of
 * news for the purse. An error is news too, so no purse waits for a statement that has ended. And what an ask of an actor comes
 * to for a call: the reply, or a failure.
 */
import { Account, type AccountCommand, type AccountLease } from "../../actors/account.ts"
import type { Behaviour, Runtime } from "../../actors/kernel/actor.ts"
import { Ask, type Unanswered } from "../../actors/kernel/turns.ts"
import type { Clock } from "../../actors/kernel/clock.ts"
import type { Growth, LeaseDriver, LeaseNews, VersionedLease } from "../../actors/lease.ts"
import { type Micro, zero } from "../../actors/money/micro.ts"
import { Failure, noCapacity } from "../failure/failure.ts"
import { type BreakerPurses, ownerOf } from "../store/breakers.ts"
import { DatabaseUnavailable } from "../store/database.ts"
import type { ActorStore } from "../store/leases.ts"

/** An ask comes to its reply, or to a failure. */
export const actorAsk = <T>(): Ask<T, T | Failure> => new Ask<T, T | Failure>(replyOrFailure)

const replyOrFailure = { ofReply: <T>(value: T): T => value, otherwise: failureOf }

function failureOf(outcome: Unanswered): Failure {
  if (outcome.kind === "unknown") {
    // A turn ends at once; what is not answered in time waits for a lease to grow, and so for the database.
    return new Failure(outcome.reason === "deadline" ? "dependency.database_unavailable" : "internal.error")
  }
  if (outcome.reason === "full" || outcome.reason === "late") return noCapacity()
  // An actor that cannot start, or not in time, waits for the database.
  const waits = outcome.reason === "unavailable" && outcome.cause === undefined
  if (waits || outcome.cause instanceof DatabaseUnavailable) return new Failure("dependency.database_unavailable")
  return new Failure("internal.error")
}

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

/** The purses of accounts, or of breakers. */
interface Purses extends Pick<LeaseStatements, "what"> {
  readonly accountOf: (id: string) => string
  /** Undefined when this process was closed by another. */
  readonly grow: (id: string, short: Micro, version: number) => Promise<Growth<AccountLease> | undefined>
  readonly giveBack: (id: string, leaseId: bigint, returned: Micro) => Promise<VersionedLease | undefined>
}

interface StartParts {
  readonly clock: Clock
  /** Resolves when all is durable that was sent to the ledger of an account. */
  readonly written: (accountId: string) => Promise<void>
  readonly failed: (what: string, error: unknown) => void
  /** A start failed: what is leased may be in nobody's hands. */
  readonly startAgain: (id: string) => void
}

interface AccountStartParts extends StartParts {
  readonly store: Pick<ActorStore, "growLease" | "returnLease">
}

/** Starts accounts, each on the lease that this process has on it. */
export const startAccount = ({ store, ...parts }: AccountStartParts): Start<AccountCommand> =>
  startPurse(parts, {
    what: "account",
    accountOf: (accountId) => accountId,
    grow: (accountId, short, version) => store.growLease(accountId, short, version),
    giveBack: (_, leaseId, returned) => store.returnLease(leaseId, returned),
  })

interface BreakerStartParts extends StartParts {
  readonly purses: BreakerPurses
}

/** The same of breakers. */
export const startBreaker = ({ purses, ...parts }: BreakerStartParts): Start<AccountCommand> =>
  startPurse(parts, {
    what: "breaker",
    accountOf: (purse) => ownerOf(purse).accountId,
    grow: (purse, short, version) => purses.grow(purse, short, version),
    giveBack: (purse, _, returned) => purses.giveBack(purse, returned),
  })

/**
 * A lease that an actor left when it crashed, or that was opened without an answer, is in nobody's hands: no neighbour gets
 * anything of it before an actor knows it again. So a start that fails is repeated by `startAgain`.
 */
function startPurse({ clock, written, failed, startAgain }: StartParts, purses: Purses): Start<AccountCommand> {
  const { what, accountOf, grow, giveBack } = purses
  const openLease = async (id: string) => {
    await written(accountOf(id))
    // Of a lease that is open already this reads what there is.
    return await grow(id, zero, 0)
  }
  return async (id, tell) => {
    const opened = await openLease(id).catch((error: unknown) => {
      startAgain(id)
      throw error
    })
    // Closed by another process, this one has no access any more; a client that asks again finds one that has.
    if (opened === undefined) throw new DatabaseUnavailable(`no lease on ${id} can be had`)
    const { lease } = opened
    const self = (news: LeaseNews) => tell({ type: "lease", news })
    const driver = leaseDriver({
      what,
      async grow(short, version) {
        const grown = await grow(id, short, version)
        // Charges are booked under the lease that this actor began with; another one is not its own.
        if (grown?.lease.id !== lease.id) throw new Error(`the lease ${lease.id} on ${id} is not open any more`)
        return grown
      },
      giveBack: (returned) => giveBack(id, lease.id, returned),
      written: () => written(accountOf(id)),
      tell: self,
      failed,
    })
    return new Account({ clock, self, ...driver }, lease, opened.more)
  }
}

export type Start<Command> = (id: string, tell: (command: Command) => void) => Promise<Behaviour<Command>>
export type Restart<Command> = (
  id: string,
  tell: (command: Command) => void,
  isRestarted: boolean,
) => Promise<Behaviour<Command>>

/** When an actor that could not be started again, because the database was away, is looked after again, in milliseconds. */
export const START_AGAIN_MS = 1_000

/** Looks after an actor that could not be started: once for all starts that fail meanwhile, or each would begin a series of its own. */
export function startingAgain(clock: Clock, again: (id: string) => void): (id: string) => void {
  const waiting = new Set<string>()
  return (id) => {
    if (waiting.has(id)) return
    waiting.add(id)
    clock.after(START_AGAIN_MS, () => {
      waiting.delete(id)
      again(id)
    })
  }
}

/**
 * Actors that lease only once they are asked for money start again without knowing of what the one before them had leased. That is
 * in nobody's hands: no neighbour gets anything of it before an actor knows it again. So those are told that they follow one that
 * crashed, and a start of theirs that fails is repeated.
 */
export class Restarts {
  /** What the actors are to be run on. */
  readonly runtime: Runtime
  readonly #kinds = new Set<string>()
  /** By name, from their crash until they have started. */
  readonly #crashed = new Set<string>()

  constructor(runtime: Runtime) {
    this.runtime = {
      ...runtime,
      crashed: (name, cause) => {
        if (this.#kinds.has(kindOf(name))) this.#crashed.add(name)
        runtime.crashed(name, cause)
      },
    }
  }

  /** `again`: asks for an actor of the kind, which begins it anew. */
  of<Command>(kind: string, start: Restart<Command>, again: (id: string) => void): Start<Command> {
    this.#kinds.add(kind)
    const startAgain = startingAgain(this.runtime.clock, again)
    return async (id, tell) => {
      const name = `${kind}:${id}`
      const isRestarted = this.#crashed.has(name)
      try {
        const behaviour = await start(id, tell, isRestarted)
        this.#crashed.delete(name)
        return behaviour
      } catch (error) {
        if (isRestarted) startAgain(id)
        throw error
      }
    }
  }
}

const kindOf = (name: string): string => name.slice(0, name.indexOf(":"))
