/**
 * How often something may be done, counted for all processes: under a name, from the first time on, and sign-ups of each network.
 * Each is one statement, in which the row's lock lets one caller after the other decide. It is not sent again, because it counts.
 */
import type { Database } from "./database.ts"

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
          insert into allowances as a (name, used, ends_at) values (${name}, 1, now() + make_interval(secs => ${seconds}))
          on conflict (name) do update set
            used = case when a.ends_at > now() then a.used + 1 else 1 end,
            ends_at = case when a.ends_at > now() then a.ends_at else excluded.ends_at end
          where a.ends_at <= now() or a.used < ${most}
          returning name
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

export interface SignUpLimits {
  readonly perHour: number
  readonly perDay: number
}

/** Accounts that were made from a network, by the hour and by the day from the first of them. */
export interface SignUpStore {
  /** Counts one, or tells in how many seconds there is room for one. */
  count(network: string, limits: SignUpLimits): Promise<number | undefined>
}

export const signUpStore = (database: Database): SignUpStore => ({
  async count(network, { perHour, perDay }) {
    const [row] = await database.run(
      (sql) => sql<{ wait_s: number | null }[]>`
        with forgotten as (
          delete from sign_ups where network in (
            select network from sign_ups where day_began_at < now() - interval '1 day' and network <> ${network}
            limit 10 for update skip locked
          )
        ), counted as (
          insert into sign_ups as s (network) values (${network})
          on conflict (network) do update set
            hour_count = case when s.hour_began_at > now() - interval '1 hour' then s.hour_count + 1 else 1 end,
            hour_began_at = case when s.hour_began_at > now() - interval '1 hour' then s.hour_began_at else now() end,
            day_count = case when s.day_began_at > now() - interval '1 day' then s.day_count + 1 else 1 end,
            day_began_at = case when s.day_began_at > now() - interval '1 day' then s.day_began_at else now() end
          where (s.hour_began_at <= now() - interval '1 hour' or s.hour_count < ${perHour})
            and (s.day_began_at <= now() - interval '1 day' or s.day_count < ${perDay})
          returning network
        )
        select case when not exists (select from counted) then coalesce((
          select extract(epoch from greatest(
            case when hour_count >= ${perHour} then hour_began_at + interval '1 hour' - now() end,
            case when day_count >= ${perDay} then day_began_at + interval '1 day' - now() end))
          from sign_ups where network = ${network}), 1)::float8 end as wait_s`,
    )
    return row?.wait_s ?? undefined
  },
})
