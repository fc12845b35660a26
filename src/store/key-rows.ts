/** Keys as rows, what their owner sees of them, and their secrets. */
import type { Fallback } from "../../actors/key-record.ts"
import { type Micro, micro, plus, zero } from "../../actors/money/micro.ts"
import { type SpendingPeriod, calendarAt } from "../../actors/period.ts"
import type { Endpoint } from "../language/request.ts"
import { type KeyName, type RunningRow, runningOf } from "./account-settings.ts"
import { type Pause, type PauseRow, pauseOf } from "./breakers.ts"
import type { Database, Sql } from "./database.ts"
import { type ChangeName, taking } from "./idempotency-keys.ts"

export interface KeyRecord extends KeyBounds {
  readonly id: string
  readonly keyHash: Uint8Array
  readonly name: string
  readonly prefix: string
  readonly last4: string
  readonly requestsPerMinute: number | undefined
  readonly tokensPerMinute: number | undefined
  readonly budget: KeyBudget | undefined
  readonly fallback: Fallback
  /** Whether its holder may ask with it what is left. */
  readonly showsBalance: boolean
  /** Whether a call that an SDK sends again by itself gets the answer of the first. */
  readonly replaysRetries: boolean
  /** The most within ten minutes. */
  readonly breakerCeilingMicro: Micro | undefined
  readonly breakerStops: boolean
  readonly breakerPauseMinutes: number | undefined
  readonly paused: Pause | undefined
  /** Whose child it is. */
  readonly parentId: string | undefined
  readonly isParentRevoked: boolean
  /** Of its own, those that were not revoked. */
  readonly children: number
  readonly createdAt: Date
  readonly revokedAt: Date | undefined
  /** When the last call came that was forwarded, to the millisecond; there once its opening or its record is written. */
  readonly lastUsedAt: Date | undefined
  /** Until when the secret that was replaced last still works, while it does. */
  readonly previousExpiresAt: Date | undefined
  /** Where it was asked for. */
  readonly spending: KeySpending | undefined
}

/** What was settled of a key and its children, by the account's calendar. */
interface KeySpending {
  readonly todayMicro: Micro
  readonly monthMicro: Micro
  /** Of each day, today the last. */
  readonly daysMicro: readonly Micro[]
}

export const MAX_SPENT_DAYS = 31

/** What a key is bound to; null is not bound. Lists are not empty. */
export interface KeyBounds {
  /** From when on it makes no calls. */
  readonly expiresAt: Date | null
  readonly models: readonly string[] | null
  readonly endpoints: readonly Endpoint[] | null
  /** As `writeNetwork` writes them. */
  readonly networks: readonly string[] | null
  /** Of pages that may call with it from a browser, as `readOrigin` writes them. */
  readonly origins: readonly string[] | null
  /** For one token; models of which a rate is above it are not for this key. */
  readonly maxRateMicro: Micro | null
}

export const unbound: KeyBounds = {
  expiresAt: null,
  models: null,
  endpoints: null,
  networks: null,
  origins: null,
  maxRateMicro: null,
}

export interface KeyBudget {
  readonly limitMicro: Micro
  readonly period: SpendingPeriod
  /** Settled in the current period. */
  readonly spentMicro: Micro
  /** When the current period ends; a total never does. */
  readonly endsAt: Date | undefined
}

export interface KeyRow extends PauseRow {
  id: string
  key_hash: Uint8Array
  name: string
  prefix: string
  last4: string
  requests_per_minute: number | null
  tokens_per_minute: number | null
  spending_limit_micro: bigint | null
  spending_period: SpendingPeriod | null
  fallback: Fallback
  shows_balance: boolean
  replays_retries: boolean
  breaker_ceiling_micro: bigint | null
  breaker_stops: boolean
  breaker_pause_minutes: number | null
  parent_id: string | null
  parent_revoked: boolean
  children: number
  created_at: Date
  revoked_at: Date | null
  expires_at: Date | null
  models: readonly string[] | null
  endpoints: readonly Endpoint[] | null
  networks: readonly string[] | null
  origins: readonly string[] | null
  max_rate_micro: bigint | null
  time_zone: string
  running: readonly RunningRow[] | null
  spent_micro: bigint | null
  period_start: Date | null
  last_used_at: Date | null
  previous_expires_at: Date | null
  /** Period, its start in milliseconds, and what was spent in it. */
  spent_periods: readonly (readonly [period: SpendingPeriod, start: number, micro: string])[] | null
}

/** `days`: of how many its spending was asked for. */
export function toRecord(row: KeyRow, now: number, days?: number): KeyRecord {
  return {
    id: row.id,
    keyHash: row.key_hash,
    name: row.name,
    prefix: row.prefix,
    last4: row.last4,
    requestsPerMinute: row.requests_per_minute ?? undefined,
    tokensPerMinute: row.tokens_per_minute ?? undefined,
    budget: toBudget(row, now),
    fallback: row.fallback,
    showsBalance: row.shows_balance,
    replaysRetries: row.replays_retries,
    breakerCeilingMicro: row.breaker_ceiling_micro === null ? undefined : micro(row.breaker_ceiling_micro),
    breakerStops: row.breaker_stops,
    breakerPauseMinutes: row.breaker_pause_minutes ?? undefined,
    paused: pauseOf(row),
    parentId: row.parent_id ?? undefined,
    isParentRevoked: row.parent_revoked,
    children: row.children,
    createdAt: row.created_at,
    revokedAt: row.revoked_at ?? undefined,
    expiresAt: row.expires_at,
    models: row.models,
    endpoints: row.endpoints,
    networks: row.networks,
    origins: row.origins,
    maxRateMicro: row.max_rate_micro === null ? null : micro(row.max_rate_micro),
    lastUsedAt: row.last_used_at ?? undefined,
    previousExpiresAt: row.previous_expires_at ?? undefined,
    spending: days === undefined ? undefined : toSpending(row, now, days),
  }
}

const DAY_MS = 24 * 60 * 60 * 1_000

/** A month that runs on over a change of the time zone takes up to two. */
export const spendingSince = (now: number): Date => new Date(now - 64 * DAY_MS)

function toSpending(row: KeyRow, now: number, days: number): KeySpending {
  const { starts } = calendarAt(now, row.time_zone, runningOf(row.running))
  const today = dayNumber(now, row.time_zone)
  const daysMicro = Array.from({ length: days }, () => zero)
  const current = { daily: zero, monthly: zero, total: zero }
  for (const [period, start, amount] of row.spent_periods ?? []) {
    const spent = micro(BigInt(amount))
    if (start >= starts[period]) current[period] = plus(current[period], spent)
    if (period !== "daily") continue
    // What begins after now was begun by a clock that was ahead.
    const place = days - 1 - Math.max(0, today - dayNumber(start, row.time_zone))
    if (place >= 0) daysMicro[place] = plus(daysMicro[place] ?? zero, spent)
  }
  return { todayMicro: current.daily, monthMicro: current.monthly, daysMicro }
}

/** Which day of the calendar it is in a time zone, counted from some day on. */
const dayNumber = (ms: number, timeZone: string): number => {
  const ahead = Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(timeZone).offsetNanoseconds / 1_000_000
  return Math.floor((ms + ahead) / DAY_MS)
}

function toBudget(row: KeyRow, now: number): KeyBudget | undefined {
  if (row.spending_limit_micro === null || row.spending_period === null) return undefined
  const period = row.spending_period
  const { starts, dayEnds, monthEnds } = calendarAt(now, row.time_zone, runningOf(row.running))
  const ends = { daily: dayEnds, monthly: monthEnds, total: undefined }[period]
  // The newest row may be of a period that is over.
  const isCurrent = row.period_start !== null && row.period_start.getTime() >= starts[period]
  return {
    limitMicro: micro(row.spending_limit_micro),
    period,
    spentMicro: isCurrent && row.spent_micro !== null ? micro(row.spent_micro) : zero,
    endsAt: ends === undefined ? undefined : new Date(ends),
  }
}

export interface NewSecret {
  readonly keyHash: Uint8Array
  readonly prefix: string
  readonly last4: string
  readonly overlapS: number
}

/** How often a key may get another secret: its record has all its secrets, and is read with each change. */
export const SECRETS_A_DAY = 100

/**
 * Gives a key another secret; may be sent twice. Secrets before it work for so many seconds more, or as long as they would have. Undefined when there is no such key. A change that
 * was carried out before, with another secret, is "done before".
 */
export async function replaceSecret(
  database: Database,
  key: KeyName,
  { keyHash, prefix, last4, overlapS }: NewSecret,
  change?: ChangeName,
): Promise<"replaced" | "revoked" | "frozen" | "too often" | "done before" | undefined> {
  // What is not inserted for the first time was there before this was sent. A statement does not see what was committed after it began: where
  // the key was changed while it waited, perhaps by another secret, which would have no end, it does nothing, and is made anew.
  const attempt = (sql: Sql) => sql<
    { revoked: boolean; frozen: boolean; too_often: boolean; ours: boolean; overtaken: boolean }[]
  >`
      with found as (
        select k.id, k.key_hash, k.revoked_at is not null as revoked, a.frozen_at is not null as frozen,
          (select count(*) from key_secrets s where s.key_id = k.id and s.secret_hash <> ${keyHash}
            and s.created_at > now() - interval '1 day') >= ${SECRETS_A_DAY} as too_often
        from api_keys k join accounts a on a.id = k.account_id
        where k.id = ${key.keyId} and k.account_id = ${key.accountId}
          and k.xmin = (select s.xmin from api_keys s where s.id = k.id) for update of k
      ), ${taking(sql, change, key.keyId, sql`exists (select from found where not revoked and not frozen and not too_often)`)},
      fresh as (
        insert into key_secrets (secret_hash, key_id)
        select ${keyHash}, id from found, taken where not revoked and not frozen and not too_often
        on conflict do nothing returning key_id
      ), first as (
        insert into key_secrets (secret_hash, key_id, expires_at)
        select key_hash, id, now() + make_interval(secs => ${overlapS}) from found
        where exists (select from fresh)
        on conflict do nothing
      ), ending as (
        update key_secrets s set expires_at = least(coalesce(s.expires_at, 'infinity'), now() + make_interval(secs => ${overlapS}))
        from fresh f where s.key_id = f.key_id and s.secret_hash <> ${keyHash}
      ), forgotten as (
        -- The first one stays: without its row it would be one that was never replaced.
        delete from key_secrets s using found f
        where s.key_id = f.id and s.secret_hash <> f.key_hash and s.expires_at < now() - interval '7 days'
      ), shown as (
        update api_keys k set prefix = ${prefix}, last4 = ${last4} from fresh f where k.id = f.key_id
      )
      select revoked, frozen, too_often,
        exists (select from fresh) or exists (select from key_secrets where secret_hash = ${keyHash}) as ours, false as overtaken
      from found
      union all
      select false, false, false, false, true from api_keys
      where id = ${key.keyId} and account_id = ${key.accountId} and not exists (select from found)`
  const tried = async () => (await database.run(attempt, { deadlineMs: 5_000, retry: true }))[0]
  let row = await tried()
  while (row?.overtaken === true) row = await tried()
  if (row === undefined) return undefined
  if (row.revoked) return "revoked"
  if (row.frozen) return "frozen"
  if (row.too_often) return "too often"
  return row.ours ? "replaced" : "done before"
}
