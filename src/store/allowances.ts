/**
 * How often something may be done under a name in a time, counted for all processes: from the first one on, so many until the
 * time is over. One statement, in which the row's lock lets one caller after the other decide; not sent again, because it counts.
 */
import type { Database } from "./database.ts"

export interface Allowance {
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
