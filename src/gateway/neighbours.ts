/**
 * What other processes on the same database say, told to the actors that it concerns. An actor that is not there has
 * nothing to give, and reads what is durable when it starts.
 */
import type { LeaseNews } from "../../actors/lease.ts"
import type { Micro } from "../../actors/money/micro.ts"
import type { Database } from "../store/database.ts"
import type { Share } from "../../actors/share.ts"
import type { Notice } from "../store/notices.ts"
import type { Actors } from "./actors.ts"

/** Of a key or an account; what is heard of processes changes the share, see `shares.ts`. */
export type ActorNotice = Exclude<Notice, { readonly about: "processes" | "catalogue" }>

export function hear(actors: Actors, processId: string, notice: ActorNotice): void {
  if (notice.what === "changed") {
    actors.keys.tellIfActive(notice.id, { type: "changed" })
    return
  }
  const news = newsOf(notice, processId)
  if (news === undefined) return
  const registry = notice.about === "account" ? actors.accounts : actors.keys
  registry.tellIfActive(notice.id, { type: "lease", news })
}

/** The number of processes has changed: every key and model has another share from now on. The gate is one process's own. */
export function tellShare(actors: Actors, share: Share): void {
  actors.keys.tellAll({ type: "share", share })
  actors.models.tellAll({ type: "share", share })
}

function newsOf(notice: Exclude<ActorNotice, { readonly what: "changed" }>, processId: string): LeaseNews | undefined {
  if (notice.what === "freed") return { type: "freed" }
  if (notice.processId === processId) return undefined
  // Any order will do on which both agree.
  return { type: "recalled", amount: notice.amount, yields: notice.processId < processId }
}

/** Some notices were missed: anything may have changed. */
export function hearAll(actors: Actors): void {
  actors.keys.tellAll({ type: "changed" })
  actors.keys.tellAll({ type: "lease", news: { type: "freed" } })
  actors.accounts.tellAll({ type: "lease", news: { type: "freed" } })
}

/** From now on this process keeps only what its calls under way hold. */
export function drainLeases(actors: Actors): void {
  actors.keys.tellAll({ type: "lease", news: { type: "drain" } })
  actors.accounts.tellAll({ type: "lease", news: { type: "drain" } })
}

/** Asks every process, this one too, for so much of what it has leased of an account and does not need. */
export function recall(
  { actors, database, processId }: { readonly actors: Actors; readonly database: Database; readonly processId: string },
  accountId: string,
  amount: Micro,
): void {
  actors.accounts.tellIfActive(accountId, { type: "lease", news: { type: "recalled", amount, yields: true } })
  const notice = `short account ${accountId} ${processId} ${amount}`
  // Whoever does not hear of it has only more than it needs.
  database.run((sql) => sql`select pg_notify('loket', ${notice})`).catch(() => {})
}
