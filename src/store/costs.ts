/**
 * What backends charge, and exchange rates, as rows: versions by time, which are added and, once in force, never changed. And
 * what was learnt of accounts whose calls cost the house more than was estimated.
 */
import { type Micro, micro } from "../../actors/money/micro.ts"
import type { Rounding } from "../../actors/money/price.ts"
import { costOfSeed } from "../catalogue/exchange.ts"
import { backendName, type CostVersion, type ExchangeRate } from "../catalogue/model.ts"
import type { CatalogueFile } from "../catalogue/schema.ts"
import type { BackendFormat } from "../language/request.ts"
import type { Database, Sql } from "./database.ts"
import { type Act, signature, signatureColumns } from "./operator/audit.ts"

/**
 * Parts of the statement that seeds: a cost that differs from the one in force becomes a version from `now`, or from its own
 * `effective_at` if that is still to come. A backend that is left without a cost keeps its last one. After `overtaken`, of which no
 * row may be there; ends in `written_costs`.
 */
export function writtenCosts(sql: Sql, { models }: CatalogueFile, now: Date) {
  const rows = models.flatMap(({ model, upstreams }) =>
    upstreams.flatMap(({ provider, format, model: upstream, cost: seed }) => {
      if (seed === undefined) return []
      const { currency, rates, perCall, perSearch, rounding, step } = costOfSeed(seed)
      return {
        model,
        provider,
        format,
        upstream_model: upstream,
        currency,
        input_nano: String(rates.input),
        output_nano: String(rates.output),
        cache_read_nano: String(rates.cacheRead),
        cache_write_nano: String(rates.cacheWrite),
        per_call_nano: String(perCall),
        per_search_nano: String(perSearch),
        rounding,
        step_nano: String(step),
        effective_at: seed.effective_at,
      }
    }),
  )
  const amounts = sql`currency, input_nano, output_nano, cache_read_nano, cache_write_nano, per_call_nano, per_search_nano,
    rounding, step_nano`
  return sql`
    cost_seed as (
      select * from jsonb_to_recordset(${JSON.stringify(rows)}::text::jsonb) as c (
        model text, provider text, format text, upstream_model text, currency text, input_nano bigint, output_nano bigint,
        cache_read_nano bigint, cache_write_nano bigint, per_call_nano bigint, per_search_nano bigint, rounding text,
        step_nano bigint, effective_at timestamptz
      ) where not exists (select from overtaken)
    ), timed_costs as (
      select c.*, case
        when exists (
          select from costs k where (k.model, k.provider, k.format, k.upstream_model)
            = (c.model, c.provider, c.format, c.upstream_model)
        ) then greatest(coalesce(c.effective_at, ${now}), ${now}::timestamptz)
        else coalesce(c.effective_at, ${now})
      end as starts_at
      from cost_seed c
    ), written_costs as (
      insert into costs as k (model, provider, format, upstream_model, ${amounts}, effective_at, created_at)
      select c.model, c.provider, c.format, c.upstream_model, c.currency, c.input_nano, c.output_nano, c.cache_read_nano,
        c.cache_write_nano, c.per_call_nano, c.per_search_nano, c.rounding, c.step_nano, c.starts_at, ${now}
      from timed_costs c
      left join lateral (
        select * from costs v where (v.model, v.provider, v.format, v.upstream_model)
          = (c.model, c.provider, c.format, c.upstream_model) and v.effective_at <= c.starts_at
        order by v.effective_at desc limit 1
      ) held on true
      where (held.currency, held.input_nano, held.output_nano, held.cache_read_nano, held.cache_write_nano,
          held.per_call_nano, held.per_search_nano, held.rounding, held.step_nano)
        is distinct from (c.currency, c.input_nano, c.output_nano, c.cache_read_nano, c.cache_write_nano, c.per_call_nano,
          c.per_search_nano, c.rounding, c.step_nano)
      on conflict (model, provider, format, upstream_model, effective_at) do update set
        currency = excluded.currency, input_nano = excluded.input_nano, output_nano = excluded.output_nano,
        cache_read_nano = excluded.cache_read_nano, cache_write_nano = excluded.cache_write_nano,
        per_call_nano = excluded.per_call_nano, per_search_nano = excluded.per_search_nano, rounding = excluded.rounding,
        step_nano = excluded.step_nano
      -- Nothing has been counted yet at a version that is still to come.
      where k.effective_at >= ${now}
      returning 1
    )`
}

export async function loadCosts(sql: Sql): Promise<CostVersion[]> {
  const rows = await sql<CostRow[]>`select * from costs order by model, effective_at`
  return rows.map((row) => ({
    id: row.id,
    model: row.model,
    backend: backendName({ provider: row.provider, format: row.format, model: row.upstream_model }),
    cost: {
      currency: row.currency,
      rates: {
        input: row.input_nano,
        output: row.output_nano,
        cacheRead: row.cache_read_nano,
        cacheWrite: row.cache_write_nano,
      },
      perCall: row.per_call_nano,
      perSearch: row.per_search_nano,
      rounding: row.rounding,
      step: row.step_nano,
    },
    effectiveAt: row.effective_at.getTime(),
  }))
}

/** Those of two days, within which calls end. All of them are many, where a source is asked every hour for years. */
export async function loadExchangeRates(sql: Sql): Promise<ExchangeRate[]> {
  const rows = await sql<ExchangeRow[]>`
    select id, currency, unit_micro, source, effective_at from exchange_rates r
    where effective_at >= coalesce((
      select max(o.effective_at) from exchange_rates o
      where o.currency = r.currency and o.effective_at <= now() - interval '2 days'
    ), '-infinity')
    order by currency, effective_at`
  return rows.map(exchangeRateOf)
}

/** Currencies that a backend bills in and that have no rate: what it costs is not known. */
export async function currenciesWithoutRate(sql: Sql): Promise<string[]> {
  const rows = await sql<{ currency: string }[]>`
    select distinct currency from costs c
    where currency <> 'IDR' and not exists (select from exchange_rates r where r.currency = c.currency) order by 1`
  return rows.map(({ currency }) => currency)
}

interface ExchangeRow {
  readonly id: bigint
  readonly currency: string
  readonly unit_micro: bigint
  readonly source: "operator" | "fetched"
  readonly effective_at: Date
}

const exchangeRateOf = (row: ExchangeRow): ExchangeRate => ({
  id: row.id,
  currency: row.currency,
  unit: micro(row.unit_micro),
  source: row.source,
  effectiveAt: row.effective_at.getTime(),
})

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

interface CostRow {
  readonly id: bigint
  readonly model: string
  readonly provider: string
  readonly format: BackendFormat
  readonly upstream_model: string
  readonly currency: string
  readonly input_nano: bigint
  readonly output_nano: bigint
  readonly cache_read_nano: bigint
  readonly cache_write_nano: bigint
  readonly per_call_nano: bigint
  readonly per_search_nano: bigint
  readonly rounding: Rounding
  readonly step_nano: bigint
  readonly effective_at: Date
}

interface FactorRow {
  readonly accountId: string
  readonly model: string
  readonly part: "texts" | "documents"
  readonly factor: number
  readonly learntAt: number
}

/** Calls wait for a reading. */
const READ_MS = 1_000
const WRITE_MS = 5_000

/** What was learnt of accounts whose calls cost the house more than was estimated (src/gateway/input-estimate.ts). */
export const estimateFactorStore = (database: Database) => ({
  async read(accountId: string): Promise<readonly FactorRow[]> {
    const rows = await database.run(
      (sql) => sql<{ model: string; part: FactorRow["part"]; factor: number; learnt_at: Date }[]>`
        select model, part, factor, learnt_at from estimate_factors where account_id = ${accountId}`,
      { deadlineMs: READ_MS },
    )
    return rows.map(({ model, part, factor, learnt_at: at }) => ({
      accountId,
      model,
      part,
      factor,
      learntAt: at.getTime(),
    }))
  },

  async write({ accountId, model, part, factor, learntAt }: FactorRow): Promise<void> {
    await database.run(
      (sql) => sql`
        insert into estimate_factors (account_id, model, part, factor, learnt_at)
        values (${accountId}, ${model}, ${part}, ${factor}, ${new Date(learntAt)})
        on conflict (account_id, model, part) do update set factor = excluded.factor, learnt_at = excluded.learnt_at`,
      { deadlineMs: WRITE_MS, retry: true },
    )
  },
})
