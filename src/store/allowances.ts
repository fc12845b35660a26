/**
 * How often something may be done, counted for all processes: under a name, from the first time on, and sign-ups of each network.
 * Each is one statement, in which the row's lock lets one caller after the other decide. It is not sent again, because it counts.
 *
 * Then what there is once, trial credit: an ordinary transfer from `house:trial_credits`. Micro-rupiah. One statement: the row
 * that says that an address and an account have had it, the transfer and the balance are there together or not at all, so of two
 * at once one gives and the other does not.
 */
import type { Micro } from "../../actors/money/micro.ts"
import { siteOf } from "../../actors/network.ts"
import type { Database, Sql } from "./database.ts"

interface Allowance {
  readonly name: string
  readonly most: number
  readonly seconds: number
}

export interface AllowanceStore {
  /** Takes one, or tells in how many seconds there is one. */
  take(allowance: Allowance): Promise<number | undefined>
  /** As if nothing had been taken. */
  clear(name: string): Promise<void>
}

export const allowanceStore = (database: Database): AllowanceStore => ({
  async take({ name, most, seconds }) {
    const [row] = await database.run(
      (sql) => sql<{ wait_s: number | null }[]>`
        with forgotten as (
          delete from allowances where name in (
            select name from allowances where ends_at < now() and name <> ${name} limit 10 for update skip locked
          )
        ), taken as (
          ${takeOne(sql, { name, most, seconds }, sql`(select) as always`)}
        )
        select case when not exists (select from taken) then coalesce((
          select extract(epoch from ends_at - now()) from allowances where name = ${name}), 1)::float8 end as wait_s`,
    )
    return row?.wait_s ?? undefined
  },

  async clear(name) {
    await database.run((sql) => sql`delete from allowances where name = ${name}`, { retry: true })
  },
})

/**
 * A window that begins later than this was counted by a clock that has been set back since. It counts no more: it would keep people out
 * until the clock is where it was. A minute is allowed, because a statement that began later may have counted before this one.
 */
const AHEAD = "1 minute"

/** Part of a `with`: takes one, where `from` has a row, and returns a row if there was one. */
function takeOne(sql: Sql, { name, most, seconds }: Allowance, from: ReturnType<Sql>) {
  const isUnderWay = sql`(a.ends_at > now() and a.ends_at < excluded.ends_at + ${AHEAD}::interval)`
  return sql`
    insert into allowances as a (name, used, ends_at) select ${name}, 1, now() + make_interval(secs => ${seconds}) from ${from}
    on conflict (name) do update set
      used = case when ${isUnderWay} then a.used + 1 else 1 end,
      ends_at = case when ${isUnderWay} then a.ends_at else excluded.ends_at end
    where not ${isUnderWay} or a.used < ${most}
    returning name`
}

export interface SignUpLimits {
  readonly perHour: number
  readonly perDay: number
}

/** Accounts that were made from a network, by the hour and by the day from the first of them. */
export interface SignUpStore {
  /** Counts one, or tells in how many seconds there is room for one. */
  count(network: string, limits: SignUpLimits): Promise<number | undefined>
}

const isUnderWay = (sql: Sql, since: ReturnType<Sql>, lasts: string) =>
  sql`(${since} > now() - ${lasts}::interval and ${since} < now() + ${AHEAD}::interval)`

/** All networks of a site may make so many times as many as one. */
const OF_SITE = 4

export const signUpStore = (database: Database): SignUpStore => {
  const countOne = async (network: string, { perHour, perDay }: SignUpLimits): Promise<number | undefined> => {
    const [row] = await database.run((sql) => {
      const hour = isUnderWay(sql, sql`s.hour_began_at`, "1 hour")
      const day = isUnderWay(sql, sql`s.day_began_at`, "1 day")
      return sql<{ wait_s: number | null }[]>`
        with forgotten as (
          delete from sign_ups where network in (
            select network from sign_ups where day_began_at < now() - interval '1 day' and network <> ${network}
            limit 10 for update skip locked
          )
        ), counted as (
          insert into sign_ups as s (network) values (${network})
          on conflict (network) do update set
            hour_count = case when ${hour} then s.hour_count + 1 else 1 end,
            hour_began_at = case when ${hour} then s.hour_began_at else now() end,
            day_count = case when ${day} then s.day_count + 1 else 1 end,
            day_began_at = case when ${day} then s.day_began_at else now() end
          where (not ${hour} or s.hour_count < ${perHour}) and (not ${day} or s.day_count < ${perDay})
          returning network
        )
        select case when not exists (select from counted) then coalesce((
          select extract(epoch from greatest(
            case when hour_count >= ${perHour} then hour_began_at + interval '1 hour' - now() end,
            case when day_count >= ${perDay} then day_began_at + interval '1 day' - now() end))
          from sign_ups where network = ${network}), 1)::float8 end as wait_s`
    })
    return row?.wait_s ?? undefined
  }
  return {
    async count(network, limits) {
      const waitS = await countOne(network, limits)
      const site = siteOf(network)
      if (waitS !== undefined || site === network) return waitS
      return await countOne(site, { perHour: OF_SITE * limits.perHour, perDay: OF_SITE * limits.perDay })
    },
  }
}

export interface TrialCredit {
  readonly accountId: string
  /** Keyed, of the address as everybody writes it. */
  readonly addressHash: Uint8Array
  readonly amountMicro: Micro
  /** What the network and the day have left, which is taken with the credit: what is not given is not counted. */
  readonly network: Allowance
  readonly day: Allowance
}

/** Since its address was proved. */
export interface TrialDue {
  readonly accountId: string
  /** Undefined where the account is deleted. */
  readonly email: string | undefined
  /** The name of the network's allowance. */
  readonly network: string
}

export interface TrialCreditStore {
  /** Of the account; or without one some of those that nobody has settled for a while, each put off for everybody. */
  dues(accountId: string | undefined): Promise<readonly TrialDue[]>
  /** It was given, or is not to be. */
  settled(accountId: string): Promise<void>
  /**
   * False where either has had it before, the account is frozen, deleted or not proved, or the network or the day has had its share. The
   * network first: one that has had it takes nothing from everybody's day. Nor does a day without any left take from a network's
   * share, which lasts longer. Of one that was sent twice, true.
   */
  give(credit: TrialCredit): Promise<boolean>
}

/** Dues of one round. */
const ROUND = 20
/** None is put off by as much: what is later was put off by a clock of the database that has been set back since. */
const LONGEST_WAIT = "2 minutes"
const once = { deadlineMs: 5_000, retry: true } as const

export const trialCreditStore = (database: Database): TrialCreditStore => ({
  async dues(accountId) {
    const rows = await database.run(
      (sql) => sql<{ account_id: string; network: string; email: string | null }[]>`
        with due as (
          select account_id as due_id from trial_dues
          where ${accountId === undefined ? sql`(next_try_at <= now() or next_try_at > now() + ${LONGEST_WAIT}::interval)` : sql`account_id = ${accountId}`}
          order by next_try_at limit ${ROUND} for update skip locked
        ), put_off as (
          update trial_dues set next_try_at = now() + interval '1 minute' from due where account_id = due_id
          returning account_id, network
        )
        select p.account_id, p.network, a.email from put_off p
        left join accounts a on a.id = p.account_id and a.deleted_at is null`,
      once,
    )
    return rows.map((row) => ({ accountId: row.account_id, email: row.email ?? undefined, network: row.network }))
  },

  async settled(accountId) {
    await database.run((sql) => sql`delete from trial_dues where account_id = ${accountId}`, once)
  },

  async give({ accountId, addressHash, amountMicro: amount, network, day }) {
    const [row] = await database.run(
      (sql) => sql<{ given: boolean }[]>`
        with account as materialized (
          select a.id from accounts a join balances b on b.account_id = a.id
          where a.id = ${accountId} and a.deleted_at is null and a.frozen_at is null and not a.email_unproved for update
        ), entitled as (
          select id from account where not exists (
            select from trial_credits where account_id = ${accountId} or address_hash = ${addressHash})
            and not exists (
              select from allowances where name = ${day.name} and ends_at > now() and used >= ${day.most})
        ), of_network as (
          ${takeOne(sql, network, sql`entitled`)}
        ), of_day as (
          ${takeOne(sql, day, sql`of_network`)}
        ), first as (
          insert into trial_credits (address_hash, account_id, amount_micro)
          select ${addressHash}, id, ${amount}::bigint from entitled, of_day
          on conflict do nothing returning account_id
        ), fresh as (
          insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
          select 'trial:' || account_id, 'house:trial_credits', account_id, ${amount}::bigint, 'trial_credit' from first
          returning credit_account
        )
        select apply_1(null, array(
            select ('account', f.credit_account, null, null, null, -${amount}::bigint)::change_1 from fresh f)),
          exists (select from fresh) or exists (
            select from trial_credits t where t.account_id = ${accountId} and t.address_hash = ${addressHash}) as given
        from account`,
      once,
    )
    return row?.given === true
  },
})
