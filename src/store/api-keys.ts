/**
 * API keys as their owner sees them. The key itself is never here, only its hash and what may be shown of it.
 * What a key has spent in its current period is read along: `key_spend` is keyed by the period's start.
 */
import type { Fallback } from "../../actors/key-record.ts"
import type { Micro } from "../../actors/money/micro.ts"
import type { SpendingPeriod } from "../../actors/period.ts"
import { type Breaker, isPaused } from "./breakers.ts"
import type { Database, Sql } from "./database.ts"
import { type ChangeName, taking } from "./idempotency-keys.ts"
import { type KeyName, runningPeriods } from "./account-settings.ts"
import {
  type KeyBounds,
  type KeyRecord,
  type KeyRow,
  type NewSecret,
  replaceSecret,
  spendingSince,
  toRecord,
} from "./key-rows.ts"
import { type Act, signature, signatureColumns } from "./operator/audit.ts"
import { lastCalls } from "./usage-spans.ts"

export interface NewKey extends KeyBounds {
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
  readonly showsBalance: boolean
  readonly replaysRetries: boolean
  /** Undefined for none. */
  readonly breaker?: Breaker | undefined
  /** Whose child it is. */
  readonly parentId?: string | undefined
}

/** Undefined leaves as it is, null removes. A limit without a period keeps the period that is there, and the reverse. */
export interface KeyChange extends Changed<KeyBounds> {
  readonly name?: string | undefined
  readonly requestsPerMinute?: number | null | undefined
  readonly tokensPerMinute?: number | null | undefined
  readonly spendingLimitMicro?: Micro | null | undefined
  readonly spendingPeriod?: SpendingPeriod | null | undefined
  readonly fallback?: Fallback | undefined
  readonly showsBalance?: boolean | undefined
  readonly replaysRetries?: boolean | undefined
}

type Changed<T> = { readonly [Name in keyof T]?: T[Name] | undefined }

export interface KeyPage {
  /** The last key that was seen before, and whether it was revoked then. */
  readonly after: { readonly id: string; readonly revoked: boolean } | undefined
  readonly limit: number
  /** Children of this key; else those that are nobody's. */
  readonly childrenOf?: string | undefined
  /** With what each has spent on so many days, today the last; at most `MAX_SPENT_DAYS`. */
  readonly spentDays?: number | undefined
}

/** How many keys an account may have that work, and how many it may make in a day: revoked ones stay as rows. */
export interface KeyCounts {
  readonly active: number
  readonly aDay: number
}

/** The same of children: of one key, and of all keys of an account together. */
export interface ChildCounts extends KeyCounts {
  readonly ofKey: number
}

/** What was refused before it was made. */
export type NotMade = "frozen" | "too many" | "too many today" | "no parent" | "done before"

export interface ApiKeyStore {
  /** Those that work before the revoked ones, the newest first. */
  list(accountId: string, page: KeyPage): Promise<readonly KeyRecord[]>
  read(key: KeyName): Promise<KeyRecord | undefined>
  /** `"done before"` when the change was carried out before: with another secret, that nobody has any more. */
  create(key: NewKey, limits: KeyCounts | ChildCounts, change?: ChangeName): Promise<KeyRecord | NotMade>
  /** `"no budget"` when only one of limit and period was given and the key has not the other. */
  change(key: KeyName, change: KeyChange): Promise<KeyRecord | "no budget" | undefined>
  /** For good. With a row of the audit log when it is not the owner who does so. */
  revoke(key: KeyName, by?: { readonly act: Act; readonly reason: string }): Promise<KeyRecord | undefined>
  /** Whose key this is, by its id. */
  ownerOf(keyId: string): Promise<string | undefined>
  /** Gives the key another secret; those before it work for so many seconds more, or as long as they would have. */
  rotate(
    key: KeyName,
    secret: NewSecret,
    change?: ChangeName,
  ): Promise<KeyRecord | "revoked" | "frozen" | "too often" | "done before" | undefined>
}

const once = { deadlineMs: 5_000, retry: true } as const

/** Of a key that was just made: to look for its calls is most of reading it. */
const noCalls = (sql: Sql) => sql`select null::text as key_id, null::timestamptz as at where false`

export function apiKeyStore(database: Database, now: () => number = Date.now): ApiKeyStore {
  const select = async (
    accountId: string,
    what: KeyName | KeyPage,
    calls = (sql: Sql) => lastCalls(sql, accountId, sql`array(select id from page)`),
  ): Promise<readonly KeyRecord[]> => {
    const [days, at] = ["keyId" in what ? undefined : what.spentDays, now()]
    const rows = await database.run(
      (sql) => sql<KeyRow[]>`
        with page as (
          select k.id from api_keys k
          where k.account_id = ${accountId} and ${"keyId" in what ? named(sql, what) : following(sql, accountId, what)}
        ), calls as materialized (
          ${calls(sql)}
        )
        select k.id, k.key_hash, k.name, k.prefix, k.last4, k.requests_per_minute, k.tokens_per_minute,
          k.spending_limit_micro, k.spending_period, k.fallback, k.shows_balance, k.replays_retries, k.breaker_ceiling_micro, k.breaker_stops,
          k.breaker_pause_minutes, case when ${isPaused(sql, "k")} then k.paused_at end as paused_at, k.paused_until, k.created_at, k.revoked_at,
          k.expires_at, k.models, k.endpoints, k.networks, k.origins, k.max_rate_micro, k.parent_id,
          exists (select from api_keys p where p.id = k.parent_id and p.revoked_at is not null) as parent_revoked,
          (select count(*)::int from api_keys c where c.parent_id = k.id and c.revoked_at is null) as children,
          a.time_zone, ${runningPeriods(sql)} as running, s.spent_micro, s.period_start,
          ${days === undefined ? sql`null` : spentPeriods(sql, spendingSince(at))} as spent_periods,
          greatest((select at from calls where key_id = k.id),
            (select max(opened_at) from openings o where o.key_id = k.id),
            (select last_used_at from archived_keys where key_id = k.id)) as last_used_at,
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
    return rows.map((row) => toRecord(row, at, days))
  }
  const read = async (key: KeyName): Promise<KeyRecord | undefined> => (await select(key.accountId, key))[0]

  return {
    list: select,
    read,

    async create(key, counts, change) {
      const [row] = await database.run(
        (sql) => sql<{ refusal: Exclude<NotMade, "done before"> | "made before" | null; taken: boolean }[]>`
          with asked as materialized (
            select ${refusalOf(sql, key, counts)} as refusal
          ), ${taking(sql, change, key.id, sql`exists (select from asked where refusal is null)`)},
          made as (
          insert into api_keys (id, account_id, name, key_hash, prefix, last4, requests_per_minute, tokens_per_minute,
            spending_limit_micro, spending_period, fallback, shows_balance, replays_retries, expires_at, models, endpoints, networks, origins, max_rate_micro,
            parent_id, breaker_ceiling_micro, breaker_stops, breaker_pause_minutes)
          select ${key.id}, ${key.accountId}, ${key.name}, ${key.keyHash}, ${key.prefix}, ${key.last4},
            ${key.requestsPerMinute}::integer, ${key.tokensPerMinute}::integer, ${key.spendingLimitMicro}::bigint,
            ${key.spendingPeriod}, ${key.fallback}, ${key.showsBalance}, ${key.replaysRetries}, ${key.expiresAt}::timestamptz, ${key.models}::text[],
            ${key.endpoints}::text[], ${key.networks}::text[], ${key.origins}::text[], ${key.maxRateMicro}::bigint, ${key.parentId ?? null},
            ${key.breaker?.ceilingMicro ?? null}::bigint, ${key.breaker?.stops ?? false}, ${key.breaker?.pauseMinutes ?? null}::integer
          from asked, taken where refusal is null
          )
          select refusal, exists (select from taken) as taken from asked`,
        once,
      )
      const refusal = row?.refusal ?? undefined
      if (refusal !== undefined && refusal !== "made before") return refusal
      if (refusal === undefined && row?.taken === false) return "done before"
      const [made] = await select(key.accountId, { accountId: key.accountId, keyId: key.id }, noCalls)
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
            from api_keys k where account_id = ${key.accountId} and ${named(sql, key)} for update
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
              fallback = coalesce(${change.fallback ?? null}, fallback),
              shows_balance = coalesce(${change.showsBalance ?? null}::boolean, shows_balance),
              replays_retries = coalesce(${change.replaysRetries ?? null}::boolean, replays_retries),
              expires_at = case when ${given(change.expiresAt)} then ${change.expiresAt ?? null}::timestamptz else expires_at end,
              models = case when ${given(change.models)} then ${change.models ?? null}::text[] else models end,
              endpoints = case when ${given(change.endpoints)} then ${change.endpoints ?? null}::text[] else endpoints end,
              networks = case when ${given(change.networks)} then ${change.networks ?? null}::text[] else networks end,
              origins = case when ${given(change.origins)} then ${change.origins ?? null}::text[] else origins end,
              max_rate_micro = case when ${given(change.maxRateMicro)}
                then ${change.maxRateMicro ?? null}::bigint else max_rate_micro end
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
            update api_keys k set revoked_at = now()
            where account_id = ${key.accountId} and ${named(sql, key)} and revoked_at is null returning id
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

    async rotate(key, secret, change) {
      const outcome = await replaceSecret(database, key, secret, change)
      return outcome === "replaced" ? await read(key) : outcome
    },
  }
}

const named = (sql: Sql, { keyId, childOf }: KeyName) =>
  childOf === undefined ? sql`k.id = ${keyId}` : sql`k.id = ${keyId} and k.parent_id = ${childOf}`

const refusalOf = (sql: Sql, { accountId, id, parentId }: NewKey, counts: KeyCounts | ChildCounts) =>
  "ofKey" in counts
    ? sql`child_refusal_1(${accountId}, ${parentId ?? null}, ${id}, ${counts.ofKey}::integer, ${counts.active}::integer,
        ${counts.aDay}::integer)`
    : sql`key_refusal(${accountId}, ${id}, ${counts.active}::integer, ${counts.aDay}::integer)`

/** The end of a statement about `api_keys k` of one account: what comes after a place. */
const following = (sql: Sql, accountId: string, { after, limit, childrenOf }: KeyPage) => sql`
  ${childrenOf === undefined ? sql`k.parent_id is null` : sql`k.parent_id = ${childrenOf}`} and ${
    after === undefined
      ? sql`true`
      : sql`((k.revoked_at is not null) > ${after.revoked} or (k.revoked_at is not null) = ${after.revoked}
    and (k.created_at, k.id) < (select created_at, id from api_keys where id = ${after.id} and account_id = ${accountId}))`
  }
  order by k.revoked_at is null desc, k.created_at desc, k.id desc limit ${limit}`

/** Of key `k`, by its primary key: a few dozen rows, however many calls it has made. */
const spentPeriods = (sql: Sql, since: Date) => sql`(
  select jsonb_agg(jsonb_build_array(d.period, (extract(epoch from d.period_start) * 1000)::bigint, d.spent_micro::text))
  from key_spend d where d.key_id = k.id and d.period in ('daily', 'monthly') and d.period_start >= ${since})`

const given = (value: unknown): boolean => value !== undefined
