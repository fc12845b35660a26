/** What sums of profit come back as, from whichever of the sums they are read. Micro-rupiah. */
import { largestMicro, type Micro, micro } from "../../../actors/money/micro.ts"
import type { Sql } from "../database.ts"

export interface Profit {
  /** Final records. */
  readonly calls: number
  /** What customers were charged. */
  readonly revenueMicro: Micro
  /** Of what is known; all that backends were asked for these calls. */
  readonly costMicro: Micro
  /** The part of the cost that was estimated. */
  readonly estimatedMicro: Micro
  /** Records whose cost is not known. */
  readonly unknown: number
  readonly absorbedMicro: Micro
  /** Calls whose price was under their cost, and by how much in all. */
  readonly under: number
  readonly underMicro: Micro
}

export interface Row {
  name: string | null
  split: string | null
  calls: number
  records: number
  revenue: bigint
  cost: bigint
  estimated: bigint
  unknown: number
  absorbed: bigint
  under: number
  under_micro: bigint
}

/** The columns of a row, of what is grouped; `calls` is how many of the records are final, as SQL. */
export const summed = (sql: Sql, calls = "sum(records) filter (where profit_is_final(kind))") => sql`
  coalesce(${sql.unsafe(calls)}, 0)::int as calls, coalesce(sum(records), 0)::int as records,
  ${said(sql, sql`sum(charge_micro)`)} as revenue, ${said(sql, sql`sum(cost_micro)`)} as cost,
  ${said(sql, sql`sum(estimated_micro)`)} as estimated, coalesce(sum(unknown), 0)::int as unknown,
  ${said(sql, sql`sum(absorbed_micro)`)} as absorbed, coalesce(sum(under), 0)::int as under,
  ${said(sql, sql`sum(under_micro)`)} as under_micro`

/** As much as a JSON integer can say. */
export const said = (sql: Sql, amount: ReturnType<Sql>) =>
  sql`least(coalesce(${amount}, 0), ${String(largestMicro)}::numeric)::bigint`

export const toProfit = (row: Row): Profit => ({
  calls: row.calls,
  revenueMicro: micro(row.revenue),
  costMicro: micro(row.cost),
  estimatedMicro: micro(row.estimated),
  unknown: row.unknown,
  absorbedMicro: micro(row.absorbed),
  under: row.under,
  underMicro: micro(row.under_micro),
})
