/** Prices that are still to come, and what they would have made of an account's own calls: summed in SQL, exact to the micro-rupiah. */
import { largestMicro, type Micro, micro } from "../../actors/money/micro.ts"
import type { Database, Sql } from "./database.ts"

export interface PriceChange {
  readonly model: string
  readonly displayName: string
  readonly effectiveAt: Date
  /** The account's charged calls of the model in the period. */
  readonly calls: number
  /** What the tokens of these calls come to at the coming price, less what they come to at the present one. */
  readonly differenceMicro: Micro
}

export interface PriceChangeStore {
  /**
   * Of models on sale that the account was charged for in the hours from `since` on, the largest difference first. Of several
   * coming prices of a model only the next one with other rates is told: the one after it changes a price that does not hold yet.
   */
  coming(accountId: string, period: { readonly since: Date; readonly now: Date }): Promise<readonly PriceChange[]>
}

const once = { deadlineMs: 5_000, retry: true } as const

export const priceChangeStore = (database: Database): PriceChangeStore => ({
  async coming(accountId, { since, now }) {
    const rows = await database.run(
      (sql) => sql<Row[]>`
        with used as (
          select u.model, ${tokenSums(sql)} from usage_hours u
          where u.account_id = ${accountId} and u.hour >= ${since} and u.status = 'ok'
            -- On most days there is none, and then no hour is read.
            and u.model in (select p.model from prices p where p.effective_at > ${now})
            and not exists (select from model_aliases a where a.alias = u.model)
          group by u.model having sum(u.calls) > 0
        ), changes as (
          select u.model, m.display_name, t.effective_at, u.calls,
            ${differenceOf(sql, { from: sql`f`, to: sql`t` })} as difference
          from used u join models m on m.model = u.model
          join lateral (
            select * from prices p where p.model = u.model and p.effective_at <= ${now}
            order by p.effective_at desc limit 1
          ) f on true
          join lateral (
            select * from prices p where p.model = u.model and p.effective_at > ${now}
              and (p.input_micro, p.output_micro, p.cache_read_micro, p.cache_write_micro)
                <> (f.input_micro, f.output_micro, f.cache_read_micro, f.cache_write_micro)
            order by p.effective_at limit 1
          ) t on true
        )
        select * from changes order by abs(difference) desc, model`,
      once,
    )
    return rows.map((row) => ({
      model: row.model,
      displayName: row.display_name,
      effectiveAt: row.effective_at,
      calls: row.calls,
      differenceMicro: micro(row.difference),
    }))
  },
})

/** Of rows `u` of `usage_hours`. */
export const tokenSums = (sql: Sql) => sql`
  sum(u.calls)::int as calls, sum(u.input_tokens) as input, sum(u.output_tokens) as output,
  sum(u.cache_read_tokens) as cache_read, sum(u.cache_write_tokens) as cache_write`

/** Of such sums `u`, between two rows of rates. What does not fit JSON is told as the most that does. */
export function differenceOf(sql: Sql, { from: f, to: t }: { readonly from: Fragment; readonly to: Fragment }) {
  const most = sql`${String(largestMicro)}::numeric`
  return sql`
    greatest(-${most}, least(${most},
      u.input * (${t}.input_micro - ${f}.input_micro) + u.output * (${t}.output_micro - ${f}.output_micro)
      + u.cache_read * (${t}.cache_read_micro - ${f}.cache_read_micro)
      + u.cache_write * (${t}.cache_write_micro - ${f}.cache_write_micro)))::bigint`
}

type Fragment = ReturnType<Sql>

interface Row {
  model: string
  display_name: string
  effective_at: Date
  calls: number
  difference: bigint
}
