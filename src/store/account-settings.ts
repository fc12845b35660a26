/**
 * What an account's owner sets: time zone, language and when to be written to. Keys' budgets follow the time zone.
 * Then the kinds of mail that people are sent about their accounts.
 */
import postgres from "postgres"
import type { Micro } from "../../actors/money/micro.ts"
import { type CalendarPeriod, carriedOver, type RunningPeriod, type RunningPeriods } from "../../actors/period.ts"
import type { Database, Sql } from "./database.ts"

export type Language = "id" | "en"

/** Undefined leaves as it is, null removes. */
export interface AccountChange {
  readonly timeZone?: string | undefined
  readonly language?: Language | undefined
  readonly lowBalanceEmail?: string | null | undefined
  readonly lowBalanceThresholdMicro?: Micro | null | undefined
  readonly budgetMails?: boolean | undefined
  readonly buyerName?: string | null | undefined
  readonly buyerAddress?: string | null | undefined
  /** Digits. */
  readonly buyerNpwp?: string | null | undefined
}

export interface KeyName {
  readonly accountId: string
  readonly keyId: string
  /** Where it is said, only if it is a child of this key. */
  readonly childOf?: string | undefined
}

export interface OwnedKey {
  readonly id: string
  readonly keyHash: Uint8Array
}

export interface SettingsStore {
  /** Of a time zone: returns the account's keys that work, whose budgets follow its calendar; undefined when Postgres does not know the zone. */
  change(id: string, change: AccountChange): Promise<readonly OwnedKey[] | undefined>
  /** Of the same version twice, the first time stays. */
  agree(id: string, version: string): Promise<void>
}

const INVALID_PARAMETER_VALUE = "22023"

const once = { deadlineMs: 5_000, retry: true } as const

export function settingsStore(database: Database, now: () => number): SettingsStore {
  /** For as long as this statement: the server reads the one zone's file, where to list all of them it would read all. */
  const isZone = async (name: string): Promise<boolean> => {
    try {
      await database.run((sql) => sql`select set_config('timezone', ${name}, true)`, once)
      return true
    } catch (error) {
      if (error instanceof postgres.PostgresError && error.code === INVALID_PARAMETER_VALUE) return false
      throw error
    }
  }

  return {
    async agree(id, version) {
      await database.run(
        (sql) => sql`
          update accounts set agreed_version = ${version}, agreed_at = now()
          where id = ${id} and deleted_at is null and agreed_version is distinct from ${version}`,
        once,
      )
    },

    async change(id, change) {
      const { timeZone, language, lowBalanceEmail: email, lowBalanceThresholdMicro: threshold, budgetMails } = change
      const { buyerName, buyerAddress, buyerNpwp } = change
      // Postgres has to know it too: days of usage are counted there.
      if (timeZone !== undefined && !(await isZone(timeZone))) return undefined
      for (;;) {
        const carried = timeZone === undefined ? undefined : await carryOver(database, id, timeZone, now())
        // A mail was sent for these settings: after a change another one may be sent.
        const rows = await database.run(
          (sql) => sql<({ found: boolean } & (OwnedKeyRow | { id: null; key_hash: null }))[]>`
            with asked as (
              select id, case when ${email !== undefined} then ${email ?? null}::text else low_balance_email end as email,
                case when ${threshold !== undefined} then ${threshold ?? null}::bigint
                  else low_balance_threshold_micro end as threshold
              from accounts
              where id = ${id} and deleted_at is null
                and (${timeZone === undefined} or time_zone = ${carried?.from ?? null})
              for update
            ), changed as (
              update accounts a set time_zone = coalesce(${timeZone ?? null}, time_zone),
                language = coalesce(${language ?? null}, language),
                budget_mails = coalesce(${budgetMails ?? null}, budget_mails),
                buyer_name = case when ${buyerName !== undefined} then ${buyerName ?? null}::text else buyer_name end,
                buyer_address = case when ${buyerAddress !== undefined} then ${buyerAddress ?? null}::text else buyer_address end,
                buyer_npwp = case when ${buyerNpwp !== undefined} then ${buyerNpwp ?? null}::text else buyer_npwp end,
                low_balance_email = w.email, low_balance_threshold_micro = w.threshold,
                low_balance_told_at = case when a.low_balance_email is distinct from w.email
                  or a.low_balance_threshold_micro is distinct from w.threshold then null else low_balance_told_at end
              from asked w where a.id = w.id returning a.id
            ), carried as (
              insert into running_periods (key_id, period, started_at, own_end, ends_at)
              select r."keyId", r.period, to_timestamp(r.start / 1000), to_timestamp(r."ownEnd" / 1000), to_timestamp(r."end" / 1000)
              from changed, jsonb_to_recordset(${JSON.stringify(carried?.periods ?? [])}::text::jsonb)
                as r("keyId" text, period text, start float8, "ownEnd" float8, "end" float8)
              order by 1, 2
              on conflict (key_id, period) do update
                set started_at = excluded.started_at, own_end = excluded.own_end, ends_at = excluded.ends_at
            )
            select changed.id is not null as found, k.id, k.key_hash
            from (select) as always left join changed on true left join api_keys k
              on ${timeZone !== undefined} and k.account_id = changed.id and k.revoked_at is null`,
          once,
        )
        // Another change of the time zone came between.
        if (carried !== undefined && rows[0]?.found !== true) continue
        return rows.flatMap((row) => (row.id === null ? [] : [toOwnedKey(row)]))
      }
    },
  }
}

export interface OwnedKeyRow {
  id: string
  key_hash: Uint8Array
}

export const toOwnedKey = (row: OwnedKeyRow): OwnedKey => ({ id: row.id, keyHash: row.key_hash })

/** Revokes the keys of an account that was somebody else's until now, and removes its webhook. */
export async function removeStrangers(database: Database, accountId: string): Promise<readonly OwnedKey[]> {
  const rows = await database.run(
    (sql) => sql<OwnedKeyRow[]>`
      with webhook as (delete from webhooks where account_id = ${accountId})
      update api_keys set revoked_at = now() where account_id = ${accountId} and revoked_at is null returning id, key_hash`,
    once,
  )
  return rows.map(toOwnedKey)
}

// The day and the month of a key that run on over a change of its account's time zone (decisions §13.5). They are written with
// the change, so every process and every start reads the same.

/** As JSON has it: milliseconds since the epoch. */
export interface RunningRow extends RunningPeriod {
  readonly period: CalendarPeriod
}

/** All of key `k`, for the list of a select; null when there are none. */
export const runningPeriods = (sql: Sql) => sql`(
  select jsonb_agg(jsonb_build_object('period', r.period, 'start', (extract(epoch from r.started_at) * 1000)::bigint,
    'ownEnd', (extract(epoch from r.own_end) * 1000)::bigint, 'end', (extract(epoch from r.ends_at) * 1000)::bigint))
  from running_periods r where r.key_id = k.id)`

export const runningOf = (rows: readonly RunningRow[] | null): RunningPeriods =>
  Object.fromEntries((rows ?? []).map((row) => [row.period, row]))

/** What an account's keys have running once its zone is another; `from` is the zone that was read with it. */
interface CarriedOver {
  readonly from: string
  readonly periods: readonly (RunningRow & { readonly keyId: string })[]
}

const periods = ["daily", "monthly"] as const

/** Undefined when there is no such account. */
async function carryOver(
  database: Database,
  accountId: string,
  to: string,
  nowMs: number,
): Promise<CarriedOver | undefined> {
  const rows = await database.run(
    (sql) => sql<{ time_zone: string; id: string | null; running: readonly RunningRow[] | null }[]>`
      select a.time_zone, k.id, ${runningPeriods(sql)} as running
      from accounts a left join api_keys k on k.account_id = a.id and k.revoked_at is null
      where a.id = ${accountId} and a.deleted_at is null`,
    { deadlineMs: 5_000, retry: true },
  )
  const from = rows[0]?.time_zone
  if (from === undefined) return undefined
  if (from === to) return { from, periods: [] }
  return {
    from,
    periods: rows.flatMap(({ id: keyId, running }) =>
      keyId === null
        ? []
        : periods.map((period) => ({
            keyId,
            period,
            ...carriedOver(nowMs, period, from, to, runningOf(running)[period]),
          })),
    ),
  }
}

/** Those with a link: a proof of the account's address, one of the address that is to take over, a forgotten password. */
export const linkKinds = ["prove", "change", "reset"] as const
export type LinkKind = (typeof linkKinds)[number]
/** What an owner is told of, so that a stranger's doing is noticed. */
export type TellKind =
  | "password-changed"
  | "password-reset"
  | "email-changed"
  | "factor-on"
  | "factor-off"
  | "app-removed"
  | "passkey-added"
  | "passkey-removed"
  | "codes-renewed"
  | "code-used"
  | "member-joined"
  | "member-raised"
export type OwnMailKind = LinkKind | TellKind
/** An invitation goes to somebody else's address; its link is a row of `invitations`. */
export type MailKind = OwnMailKind | "invitation"

/** For so long, in minutes, it is tried to send what has no link. */
export const TELL_MINUTES = 24 * 60

/** Mails of one kind to an account that are not begun. Who does a thing over and over would keep everybody's mails waiting. */
const TOLD_AT_ONCE = 5
/** And in all of a day. Whoever changes a password again and again would fill a mailbox, which may be a stranger's. */
const TOLD_A_DAY = 10

/**
 * Part of a `with`: mail that tells the owners of a query's accounts, in the statement that makes the change, so that none goes untold.
 * Where the statement may be sent again, the query must find no account the second time.
 */
export const tellOwners = (sql: Sql, kind: TellKind | ReturnType<Sql>, accountIds: ReturnType<Sql>) => sql`
  insert into account_mails (account_id, kind, email, expires_at)
  select id, ${kind}, email, now() + make_interval(mins => ${TELL_MINUTES}) from accounts a
  where id in (${accountIds}) and deleted_at is null and (
    select count(*) < ${TOLD_A_DAY} and count(*) filter (where m.tries = 0) < ${TOLD_AT_ONCE}
    from account_mails m where m.account_id = a.id and m.kind = ${kind} and m.expires_at > now())`

export const isLink = (kind: MailKind): kind is LinkKind => linkKinds.some((link) => link === kind)

export interface DueMail {
  readonly id: bigint
  readonly accountId: string
  readonly kind: MailKind
  readonly email: string
  readonly language: Language
  /** Of an invitation that still stands. */
  readonly invitation: InvitationOfMail | undefined
}

/** The roles of members of an account, of which the account's own person is the first owner without a row that says so. */
export const memberRoles = ["owner", "billing", "developer", "viewer"] as const
export type MemberRole = (typeof memberRoles)[number]

export interface InvitationOfMail {
  readonly id: string
  readonly role: MemberRole
  /** The address of the account that invites. */
  readonly from: string
}
