/**
 * API keys as their owner sees them. The key itself is never here, only its hash and what may be shown of it.
 * What a key has spent in its current period is read along: `key_spend` is keyed by the period's start.
 */
import type { Fallback } from "../../actors/key-record.ts"
import { type Micro, micro, zero } from "../../actors/money/micro.ts"
import { calendarAt, type SpendingPeriod } from "../../actors/period.ts"
import type { Database, Sql } from "./database.ts"
import { type KeyName, type NewSecret, replaceSecret } from "./key-secrets.ts"
import { type Act, signature, signatureColumns } from "./operator/audit.ts"
import { runningOf, runningPeriods, type RunningRow } from "./running-periods.ts"

export interface KeyRecord {
  readonly id: string
  readonly keyHash: Uint8Array
  readonly name: string
  readonly prefix: string
  readonly last4: string
  readonly requestsPerMinute: number | undefined
  readonly tokensPerMinute: number | undefined
  readonly budget: KeyBudget | undefined
  readonly fallback: Fallback
  readonly createdAt: Date
  readonly revokedAt: Date | undefined
  /** When the last call came that was forwarded, to the millisecond; there once its opening or its record is written. */
  readonly lastUsedAt: Date | undefined
  /** Until when the secret that was replaced last still works, while it does. */
  readonly previousExpiresAt: Date | undefined
}

export interface KeyBudget {
  readonly limitMicro: Micro
  readonly period: SpendingPeriod
  /** Settled in the current period. */
  readonly spentMicro: Micro
  /** When the current period ends; a total never does. */
  readonly endsAt: Date | undefined
}

export interface NewKey {
  readonly id: string
  readonly accountId: string
  readonly name: string
  readonly keyHash: Uint8Array
  readonly prefix: string
  readonly last4: string
  readonly requestsPerMinute: number | null
  readonly tokensPerMinute: number | null
  readonly spendingLimitMicro: Micro | null
  readonly spendingPeriod: SpendingPeriod | null
  readonly fallback: Fallback
}

/** Undefined leaves as it is, null removes. A limit without a period keeps the period that is there, and the reverse. */
export interface KeyChange {
  readonly name?: string | undefined
  readonly requestsPerMinute?: number | null | undefined
  readonly tokensPerMinute?: number | null | undefined
  readonly spendingLimitMicro?: Micro | null | undefined
  readonly spendingPeriod?: SpendingPeriod | null | undefined
  readonly fallback?: Fallback | undefined
}

export interface KeyPage {
  /** The last key that was seen before, and whether it was revoked then. */
  readonly after: { readonly id: string; readonly revoked: boolean } | undefined
  readonly limit: number
}

/** How many keys an account may have that work, and how many it may make in a day: revoked ones stay as rows. */
export interface KeyCounts {
  readonly active: number
  readonly aDay: number
}

export interface ApiKeyStore {
  /** Those that work before the revoked ones, the newest first. */
  list(accountId: string, page: KeyPage): Promise<readonly KeyRecord[]>
  read(key: KeyName): Promise<KeyRecord | undefined>
  create(key: NewKey, limits: KeyCounts): Promise<KeyRecord | "frozen" | "too many" | "too many today">
  /** `"no budget"` when only one of limit and period was given and the key has not the other. */
  change(key: KeyName, change: KeyChange): Promise<KeyRecord | "no budget" | undefined>
  /** For good. With a row of the audit log when it is not the owner who does so. */
  revoke(key: KeyName, by?: { readonly act: Act; readonly reason: string }): Promise<KeyRecord | undefined>
  /** Whose key this is, by its id. */
  ownerOf(keyId: string): Promise<string | undefined>
  /** Gives the key another secret; those before it work for so many seconds more, or as long as they would have. */
  rotate(key: KeyName, secret: NewSecret): Promise<KeyRecord | "revoked" | "frozen" | "too often" | undefined>
}

const once = { deadlineMs: 5_000, retry: true } as const

export function apiKeyStore(database: Database, now: () => number = Date.now): ApiKeyStore {
  const select = async (accountId: string, what: string | KeyPage): Promise<readonly KeyRecord[]> => {
    const rows = await database.run(
      (sql) => sql<KeyRow[]>`
        with page as (
          select k.id from api_keys k
          where k.account_id = ${accountId} and ${typeof what === "string" ? sql`k.id = ${what}` : following(sql, what)}
        )
        select k.id, k.key_hash, k.name, k.prefix, k.last4, k.requests_per_minute, k.tokens_per_minute,
          k.spending_limit_micro, k.spending_period, k.fallback, k.created_at, k.revoked_at,
          a.time_zone, ${runningPeriods(sql)} as running, s.spent_micro, s.period_start,
          greatest((select opened_at from usage u where u.key_id = k.id and u.part = 0 order by opened_at desc limit 1),
            (select max(opened_at) from openings o where o.key_id = k.id)) as last_used_at,
          (select max(expires_at) from key_secrets where key_id = k.id and expires_at > now()) as previous_expires_at
        from page join api_keys k using (id) join accounts a on a.id = k.account_id
        left join lateral (
          select spent_micro, period_start from key_spend
          where key_id = k.id and period = k.spending_period and not exists (
            select from running_periods r where r.key_id = k.id and r.period = k.spending_period
              and key_spend.period_start > r.started_at and key_spend.period_start < r.ends_at
          ) order by period_start desc limit 1
        ) s on true
        order by k.revoked_at is null desc, k.created_at desc, k.id desc`,
      once,
    )
    return rows.map((row) => toRecord(row, now()))
  }
  const read = async ({ accountId, keyId }: KeyName): Promise<KeyRecord | undefined> =>
    (await select(accountId, keyId))[0]

  return {
    list: select,
    read,

    async create(key, { active, aDay }) {
      const [row] = await database.run(
        (sql) => sql<{ refusal: "made before" | "frozen" | "too many" | "too many today" | null }[]>`
          with asked as materialized (
            select key_refusal(${key.accountId}, ${key.id}, ${active}::integer, ${aDay}::integer) as refusal
          ), made as (
          insert into api_keys (id, account_id, name, key_hash, prefix, last4, requests_per_minute, tokens_per_minute,
            spending_limit_micro, spending_period, fallback)
          select ${key.id}, ${key.accountId}, ${key.name}, ${key.keyHash}, ${key.prefix}, ${key.last4},
            ${key.requestsPerMinute}::integer, ${key.tokensPerMinute}::integer, ${key.spendingLimitMicro}::bigint,
            ${key.spendingPeriod}, ${key.fallback}
          from asked where refusal is null
          )
          select refusal from asked`,
        once,
      )
      const refusal = row?.refusal ?? undefined
      if (refusal !== undefined && refusal !== "made before") return refusal
      const made = await read({ accountId: key.accountId, keyId: key.id })
      if (made === undefined) throw new Error(`the key ${key.id} was made and is not there`)
      return made
    },

    async change(key, change) {
      const { spendingLimitMicro: limit, spendingPeriod: period } = change
      const [row] = await database.run(
        (sql) => sql<{ complete: boolean }[]>`
          with found as (
            select id,
              (${!given(limit) || limit === null || given(period)} or spending_period is not null)
              and (${!given(period) || period === null || given(limit)} or spending_limit_micro is not null) as complete
            from api_keys where id = ${key.keyId} and account_id = ${key.accountId} for update
          ), changed as (
            update api_keys k set
              name = coalesce(${change.name ?? null}, name),
              requests_per_minute = case when ${given(change.requestsPerMinute)}
                then ${change.requestsPerMinute ?? null}::integer else requests_per_minute end,
              tokens_per_minute = case when ${given(change.tokensPerMinute)}
                then ${change.tokensPerMinute ?? null}::integer else tokens_per_minute end,
              spending_limit_micro = case when ${given(limit) || period === null}
                then ${limit ?? null}::bigint else spending_limit_micro end,
              spending_period = case when ${given(period) || limit === null}
                then ${period ?? null}::text else spending_period end,
              fallback = coalesce(${change.fallback ?? null}, fallback)
            from found where k.id = found.id and found.complete
          )
          select complete from found`,
        once,
      )
      if (row === undefined) return undefined
      return row.complete ? await read(key) : "no budget"
    },

    async revoke(key, by) {
      await database.run(
        (sql) => sql`
          with revoked as (
            update api_keys set revoked_at = now()
            where id = ${key.keyId} and account_id = ${key.accountId} and revoked_at is null returning id
          )${
            by === undefined
              ? sql``
              : sql`, logged as (
            insert into audit_log (${signatureColumns(sql)}, action, subject, before, after, reason)
            select ${signature(sql, by.act)}, 'key.revoked', id, '{"revoked":false}', '{"revoked":true}', ${by.reason}
            from revoked
          )`
          }
          select id from revoked`,
        once,
      )
      return await read(key)
    },

    async ownerOf(keyId) {
      const [row] = await database.run(
        (sql) => sql<{ account_id: string }[]>`select account_id from api_keys where id = ${keyId}`,
        once,
      )
      return row?.account_id
    },

    async rotate(key, secret) {
      const outcome = await replaceSecret(database, key, secret)
      return outcome === "replaced" ? await read(key) : outcome
    },
  }
}

/** The end of a statement about `api_keys k` of one account: what comes after a place. */
const following = (sql: Sql, { after, limit }: KeyPage) => sql`
  ${
    after === undefined
      ? sql`true`
      : sql`((k.revoked_at is not null) > ${after.revoked} or (k.revoked_at is not null) = ${after.revoked}
    and (k.created_at, k.id) < (select created_at, id from api_keys where id = ${after.id}))`
  }
  order by k.revoked_at is null desc, k.created_at desc, k.id desc limit ${limit}`

const given = (value: unknown): boolean => value !== undefined

interface KeyRow {
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
  created_at: Date
  revoked_at: Date | null
  time_zone: string
  running: readonly RunningRow[] | null
  spent_micro: bigint | null
  period_start: Date | null
  last_used_at: Date | null
  previous_expires_at: Date | null
}

function toRecord(row: KeyRow, now: number): KeyRecord {
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
    createdAt: row.created_at,
    revokedAt: row.revoked_at ?? undefined,
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
