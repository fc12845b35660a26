/**
 * What other processes on the same database say, told to the actors that it concerns. An actor that is not there has
 * nothing to give, and reads what is durable when it starts.
 */
import type { Clock, Timer } from "../../actors/kernel/clock.ts"
import type { Micro } from "../../actors/money/micro.ts"
import { type Share, whole } from "../../actors/share.ts"
import type { Database } from "../store/database.ts"
import type { Notice } from "../store/notices.ts"
import type { Actors } from "./actors.ts"

/** Of a key, a run or an account; what is heard of processes changes the `Shares`. */
export type ActorNotice = Exclude<Notice, { readonly about: "processes" | "catalogue" | "origins" }>

export function hear(actors: Actors, processId: string, notice: ActorNotice): void {
  if (notice.what === "refused" || notice.what === "unusual") return
  if (notice.what === "changed") {
    // An account's is for whoever looks at it; its keys say so themselves.
    if (notice.about === "key") actors.keys.changed(notice.id)
    if (notice.about === "breaker") actors.breakers.changed(notice.id)
    return
  }
  if (notice.what === "ended") return actors.runs.ended(notice.id, notice.endsAt)
  const lessees = { account: actors.accounts, key: actors.keys, run: actors.runs, breaker: actors.breakers }[
    notice.about
  ]
  if (notice.what === "freed") lessees.freed(notice.id)
  // Of two that are short one goes first; any order will do on which both agree.
  else if (notice.processId !== processId) lessees.recalled(notice.id, notice.amount, notice.processId < processId)
}

/** The number of processes has changed: every key and model has another share from now on. The gate is one process's own. */
export function tellShare(actors: Actors, share: Share): void {
  actors.keys.share(share)
  actors.models.share(share)
}

/** Some notices were missed: anything may have changed. */
export function hearAll(actors: Actors): void {
  actors.keys.allChanged()
  actors.keys.allFreed()
  actors.runs.allChanged()
  actors.runs.allFreed()
  actors.accounts.allFreed()
  actors.breakers.allChanged()
}

/** From now on this process keeps only what its calls under way hold. */
export function drainLeases(actors: Actors): void {
  actors.keys.drain()
  actors.runs.drain()
  actors.accounts.drain()
  actors.breakers.drain()
}

/** Asks every process, this one too, for so much of what it has leased of an account and does not need. */
export function recall(
  { actors, database, processId }: { readonly actors: Actors; readonly database: Database; readonly processId: string },
  accountId: string,
  amount: Micro,
): void {
  actors.accounts.recalled(accountId, amount, true)
  const notice = `short account ${accountId} ${processId} ${amount}`
  // A lost notice is harmless: that process just keeps money that it does not need.
  database.run((sql) => sql`select pg_notify('loket', ${notice})`).catch(() => {})
}

export interface SharesPorts {
  readonly clock: Clock
  /** Answers undefined when this process takes no calls. Undefined itself where there is no other process. */
  readonly look: (() => Promise<Share | undefined>) | undefined
  readonly changed: (share: Share) => void
  readonly failed: (error: unknown) => void
}

const LOOK_MS = 2_000

/**
 * This process's share of what all processes on a database keep together. It is looked up when one comes or goes, and
 * again every few seconds, because a notice may be lost. While nobody answers the last known share holds.
 */
export class Shares {
  readonly #ports: SharesPorts
  #current = whole
  #looking = false
  #lookAgain = false
  #timer: Timer | undefined
  #stopped = false

  constructor(ports: SharesPorts) {
    this.#ports = ports
  }

  get current(): Share {
    return this.#current
  }

  /** Looks now, and from now on every few seconds. */
  async follow(): Promise<void> {
    if (this.#ports.look === undefined) return
    await this.look()
    if (!this.#stopped) this.#timer = this.#ports.clock.after(LOOK_MS, () => void this.follow())
  }

  /** One look at a time, so that an older answer never overtakes a newer one. */
  async look(): Promise<void> {
    this.#lookAgain = true
    if (this.#looking) return
    this.#looking = true
    while (this.#lookAgain) {
      this.#lookAgain = false
      await this.#lookOnce()
    }
    this.#looking = false
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.cancel()
  }

  async #lookOnce(): Promise<void> {
    try {
      const share = await this.#ports.look?.()
      if (share === undefined) return
      if (share.index === this.#current.index && share.count === this.#current.count) return
      this.#current = share
      this.#ports.changed(share)
    } catch (error) {
      this.#ports.failed(error)
    }
  }
}
