/** What an account's owner sets: time zone, language and when to be written to. Keys' budgets follow the time zone. */
import postgres from "postgres"
import type { Micro } from "../../actors/money/micro.ts"
import type { Database } from "./database.ts"
import { carryOver } from "./running-periods.ts"

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

export interface OwnedKey {
  readonly id: string
  readonly keyHash: Uint8Array
}

export interface SettingsStore {
  /** Returns the account's keys that work, whose budgets follow its calendar; undefined when Postgres does not know the zone. */
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
              on k.account_id = changed.id and k.revoked_at is null`,
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
