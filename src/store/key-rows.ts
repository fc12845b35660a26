/** Keys as rows, and what their owner sees of them. */
import type { Fallback } from "../../actors/key-record.ts"
import { type Micro, micro, zero } from "../../actors/money/micro.ts"
import { calendarAt, type SpendingPeriod } from "../../actors/period.ts"
import type { Endpoint } from "../language/request.ts"
import { type Pause, pauseOf, type PauseRow } from "./breakers.ts"
import { runningOf, type RunningRow } from "./running-periods.ts"

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
}

/** What a key is bound to; null is not bound. Lists are not empty. */
export interface KeyBounds {
  /** From when on it makes no calls. */
  readonly expiresAt: Date | null
  readonly models: readonly string[] | null
  readonly endpoints: readonly Endpoint[] | null
  /** As `writeNetwork` writes them. */
  readonly networks: readonly string[] | null
  /** For one token; models of which a rate is above it are not for this key. */
  readonly maxRateMicro: Micro | null
}

export const unbound: KeyBounds = {
  expiresAt: null,
  models: null,
  endpoints: null,
  networks: null,
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
  max_rate_micro: bigint | null
  time_zone: string
  running: readonly RunningRow[] | null
  spent_micro: bigint | null
  period_start: Date | null
  last_used_at: Date | null
  previous_expires_at: Date | null
}

export function toRecord(row: KeyRow, now: number): KeyRecord {
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
    maxRateMicro: row.max_rate_micro === null ? null : micro(row.max_rate_micro),
    lastUsedAt: row.last_used_at ?? undefined,
    previousExpiresAt: row.previous_expires_at ?? undefined,
  }
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
