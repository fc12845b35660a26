/** Exchange rates as rows: versions by time, which are added and never changed. Micro-rupiah for one unit of a currency. */
import type { Micro } from "../../../actors/money/micro.ts"
import type { ExchangeRate } from "../../catalogue/model.ts"
import { type ExchangeRow, exchangeRateOf } from "../costs.ts"
import type { Database } from "../database.ts"
import { type Act, signature, signatureColumns } from "./audit.ts"

export interface NewExchangeRate {
  readonly currency: string
  readonly unit: Micro
  readonly effectiveAt: Date
}

export interface ExchangeRateStore {
  /** The newest of each currency first, at most `limit` of each. */
  list(limit: number): Promise<readonly ExchangeRate[]>
  /** The currencies that backends bill in, but for rupiah. */
  needed(): Promise<readonly string[]>
  /** By an operator. False where there is one of that very time. */
  set(rate: NewExchangeRate, act: Act): Promise<boolean>
  /** As a source says; nothing where it is the rate that is in force then. True when it was added. */
  fetched(rate: NewExchangeRate): Promise<boolean>
}

const once = { deadlineMs: 5_000, retry: true } as const

export const exchangeRateStore = (database: Database): ExchangeRateStore => ({
  async list(limit) {
    const rows = await database.run(
      (sql) => sql<ExchangeRow[]>`
        select id, currency, unit_micro, source, effective_at from (
          select *, row_number() over (partition by currency order by effective_at desc) as place from exchange_rates
        ) r where place <= ${limit} order by currency, effective_at desc`,
      once,
    )
    return rows.map(exchangeRateOf)
  },

  async needed() {
    const rows = await database.run(
      (sql) => sql<{ currency: string }[]>`select distinct currency from costs where currency <> 'IDR' order by 1`,
      once,
    )
    return rows.map(({ currency }) => currency)
  },

  async set({ currency, unit, effectiveAt }, act) {
    const rows = await database.run(
      (sql) => sql`
        with before as (
          select unit_micro, effective_at from exchange_rates where currency = ${currency} and effective_at <= ${effectiveAt}
          order by effective_at desc limit 1
        ), added as (
          insert into exchange_rates (currency, unit_micro, source, effective_at)
          values (${currency}, ${unit}, 'operator', ${effectiveAt})
          on conflict (currency, effective_at) do nothing returning unit_micro, effective_at
        ), logged as (
          insert into audit_log (${signatureColumns(sql)}, action, subject, before, after)
          select ${signature(sql, act)}, 'exchange_rate.set', ${currency}, (select to_jsonb(b) from before b), to_jsonb(a)
          from added a returning 1
        )
        select 1 from logged union select 1 from audit_log where request_id = ${act.requestId}`,
      once,
    )
    return rows.length > 0
  },

  async fetched({ currency, unit, effectiveAt }) {
    const rows = await database.run(
      (sql) => sql`
        insert into exchange_rates (currency, unit_micro, source, effective_at)
        select ${currency}::text, ${unit}::bigint, 'fetched', ${effectiveAt}::timestamptz
        where ${unit}::bigint is distinct from (
          select unit_micro from exchange_rates where currency = ${currency} order by effective_at desc limit 1
        )
        on conflict (currency, effective_at) do nothing returning 1`,
      once,
    )
    return rows.length > 0
  },
})
