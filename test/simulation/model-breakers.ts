/**
 * Ceilings of ten minutes of the books in memory, as the functions of `src/store/migrations/0062_breakers.sql` move them.
 * Micro-rupiah, milliseconds by the database's clock.
 */
import type { AccountLease } from "../../actors/account.ts"
import type { Growth } from "../../actors/lease.ts"
import { type Micro, micro } from "../../actors/money/micro.ts"
import { type Breaker, ownerOf, type PurseLook, purseOf } from "../../src/store/breakers.ts"
import { nothing, othersHaveLeft, shareOf, sumsOf } from "./model-leases.ts"
import { type ModelBreaker, put, spendId, type Tables } from "./model-tables.ts"

const MINUTE_MS = 60_000
const purseSpend = (purse: string) => spendId(purse, "total", 0)

/** The ceiling, where it stops. */
function ceilingOf(tables: Tables, purse: string): bigint | undefined {
  const breaker = tables.breakers.get(purse)
  return breaker?.stops === true ? breaker.ceiling : undefined
}

/** As the trigger of `key_spend` does. Returns how it is taken back. */
export function addSpendingMinute(tables: Tables, purse: string, amount: bigint): () => void {
  const minute = Math.floor(tables.now() / MINUTE_MS) * MINUTE_MS
  const minutes = tables.spendingMinutes.get(purse) ?? new Map<number, bigint>()
  tables.spendingMinutes.set(purse, minutes)
  const before = minutes.get(minute)
  minutes.set(minute, (before ?? 0n) + amount)
  return () => void (before === undefined ? minutes.delete(minute) : minutes.set(minute, before))
}

export function growBreaker(
  tables: Tables,
  processId: string,
  purse: string,
  short: Micro,
  version: number,
): Growth<AccountLease> | undefined {
  if (!tables.lives(processId)) return undefined
  const id = purseSpend(purse)
  const of = { keyId: purse, period: "total", start: 0 } as const
  const spend = tables.keySpend.get(id) ?? { ...of, spent: 0n, leased: 0n }
  tables.keySpend.set(id, spend)
  const leases = tables.budgetLeases.get(id)
  const lease = leases?.get(processId) ?? { ...of, processId, ...nothing }
  const ceiling = ceilingOf(tables, purse)
  const left = ceiling === undefined ? short : ceiling - tables.spentLately(purse) - spend.leased
  const free = left > 0n ? left : 0n
  const overtaken = lease.version++ !== version
  const share = overtaken ? 0n : shareOf(tables, free, short, processId)
  spend.leased += share
  lease.granted += share
  put(tables.budgetLeases, id, processId, lease)
  const neighbours = othersHaveLeft(leases, processId)
  const amount = micro(short - share)
  if (neighbours && amount > 0n && !overtaken) {
    tables.tell({ what: "short", about: "breaker", id: purse, processId, amount })
  }
  return { lease: { id: 0n, ...sumsOf(lease) }, more: neighbours || free > share }
}

export function tripBreaker(tables: Tables, purse: string, least: Micro): readonly string[] | undefined {
  const { accountId, keyId } = ownerOf(purse)
  const breaker = tables.breakers.get(purse)
  const ceiling = ceilingOf(tables, purse)
  if (breaker === undefined || ceiling === undefined) return undefined
  if (keyId === undefined && tables.accounts.get(accountId)?.deleted !== false) return undefined
  if (!isPaused(tables, breaker)) {
    if (ceiling - tables.spentLately(purse) >= least) return undefined
    const { pauseMinutes } = breaker
    breaker.pausedUntil = pauseMinutes === undefined ? Infinity : tables.now() + pauseMinutes * MINUTE_MS
    tellKeysOf(tables, purse)
    tables.tell({ what: "changed", about: "account", id: accountId })
  }
  return keysOf(tables, purse).flatMap(({ revoked, keyHash }) => (revoked ? [] : [keyHash]))
}

export function lookBreaker(tables: Tables, purse: string): PurseLook | undefined {
  const ceiling = ceilingOf(tables, purse)
  if (ceiling === undefined) return undefined
  const { accountId, keyId } = ownerOf(purse)
  let held = 0n
  for (const row of tables.openings.values()) {
    if (row.accountId === accountId && (keyId === undefined || row.keyId === keyId)) held += row.hold
  }
  const leased = tables.keySpend.get(purseSpend(purse))?.leased ?? 0n
  const last = Math.max(...(tables.spendingMinutes.get(purse)?.keys() ?? []))
  const resetMs = last + 11 * MINUTE_MS - tables.now()
  return {
    ceiling: micro(ceiling),
    spent: micro(tables.spentLately(purse)),
    held: micro(held < leased ? held : leased),
    resetS: Math.max(0, Math.ceil(resetMs / 1_000)),
  }
}

/** Of the account, or of one of its keys. */
export function setBreaker(tables: Tables, accountId: string, keyId: string | undefined, breaker: Breaker): void {
  const account = tables.accounts.get(accountId)
  const key = keyId === undefined ? undefined : tables.keys.get(keyId)
  if (account === undefined || (keyId === undefined ? account.deleted : key?.accountId !== accountId)) return
  const purse = purseOf(accountId, keyId)
  const before = tables.breakers.get(purse)
  const { ceilingMicro: ceiling, stops, pauseMinutes } = breaker
  tables.breakers.set(purse, { ceiling, stops, pauseMinutes, pausedUntil: before?.pausedUntil })
  const isSame = (before?.ceiling ?? undefined) === ceiling && (before?.stops ?? false) === stops
  // Whatever is written of a key is told.
  if (keyId !== undefined || !isSame) tellKeysOf(tables, purse)
  if (!isSame) tables.tell({ what: "changed", about: "breaker", id: purse })
}

export function resumeBreaker(tables: Tables, accountId: string, keyId: string | undefined): void {
  if (keyId === undefined ? !tables.accounts.has(accountId) : tables.keys.get(keyId)?.accountId !== accountId) return
  const purse = purseOf(accountId, keyId)
  const breaker = tables.breakers.get(purse)
  if (keyId !== undefined || breaker?.pausedUntil !== undefined) tellKeysOf(tables, purse)
  if (breaker !== undefined) breaker.pausedUntil = undefined
  tables.spendingMinutes.delete(purse)
  tables.purseCharges.delete(purse)
}

export function minutesPass(tables: Tables, minutes: number): void {
  for (const [purse, of] of tables.spendingMinutes) {
    const moved = [...of].map(([minute, spent]) => [minute - minutes * MINUTE_MS, spent] as const)
    tables.spendingMinutes.set(purse, new Map(moved))
  }
}

/** What a key's calls are under, and until when none is taken, as its row is read. */
export function breakersOfKey(tables: Tables, accountId: string, keyId: string) {
  const purses = [purseOf(accountId, keyId), purseOf(accountId)]
  const breakers = purses.filter((purse) => ceilingOf(tables, purse) !== undefined)
  const pauses = purses.flatMap((purse) => tables.breakers.get(purse)?.pausedUntil ?? [])
  return {
    breakers: breakers.length === 0 ? undefined : breakers,
    paused: pauses.length === 0 ? undefined : { until: Math.max(...pauses) },
  }
}

const isPaused = (tables: Tables, { pausedUntil }: ModelBreaker): boolean =>
  pausedUntil !== undefined && pausedUntil > tables.now()

function keysOf(tables: Tables, purse: string) {
  const { accountId, keyId } = ownerOf(purse)
  return [...tables.keys.values()].filter((key) => key.accountId === accountId && (keyId ?? key.keyId) === key.keyId)
}

/** A key says itself what is written of it; a revoked one is not told of its account. */
function tellKeysOf(tables: Tables, purse: string): void {
  const { keyId } = ownerOf(purse)
  for (const key of keysOf(tables, purse)) {
    if (keyId !== undefined || !key.revoked) tables.tell({ what: "changed", about: "key", id: key.keyHash })
  }
}
