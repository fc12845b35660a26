/**
 * Accounts that were made from each network, counted by the hour and by the day from the first of them. One statement, in
 * which the row's lock lets one caller after the other decide; not sent again, because it counts.
 */
import type { Database } from "./database.ts"

export interface SignUpLimits {
  readonly perHour: number
  readonly perDay: number
}

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
