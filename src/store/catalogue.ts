/**
 * The catalogue as rows. Seeding is one statement, so it happens whole or not at all, and sending it again is harmless.
 * It adds and changes, and never deletes a model or a price: usage records refer to both for as long as they are kept.
 */
import { micro } from "../../actors/money/micro.ts"
import type {
  Alias,
  Catalogue,
  MemberState,
  Model,
  PriceVersion,
  SoldFeature,
  Upstream,
  Upstreams,
} from "../catalogue/model.ts"
import { limitsOf } from "../catalogue/seed-files.ts"
import type { CatalogueFile, UpstreamSeed } from "../catalogue/schema.ts"
import type { BackendFormat, Endpoint } from "../language/request.ts"
import { loadCosts, loadExchangeRates, writtenCosts } from "./costs.ts"
import type { Database, Sql } from "./database.ts"

interface Seeded {
  readonly modelsAdded: number
  readonly modelsChanged: number
  /** New price versions, and versions still to come that were corrected. */
  readonly pricesAdded: number
  /** The same of what backends charge. */
  readonly costsAdded: number
}

/** Of a model's row: another one with every change. */
export interface ModelVersion {
  readonly model: string
  readonly version: string
}

/** To be read before what operators have set is, for a seeding that keeps it. */
export const modelVersions = async (sql: Sql): Promise<readonly ModelVersion[]> =>
  await sql<ModelVersion[]>`select model, xmin::text as version from models`

/**
 * Brings the tables to what the file says. A rate that differs from the one in force becomes a version from `now`, or
 * from the model's `effective_at` if that is still to come; the past is never priced anew, so an `effective_at` that has
 * passed counts only for a model's very first version. A model that is in the file again is no alias any more, and an
 * alias of a model that has just been retired follows it to its target. `read`: models as they were when the file was made; where one
 * was changed since, nothing is done, and it is undefined.
 */
export async function seedCatalogue(
  sql: Sql,
  file: CatalogueFile,
  now: Date,
  read: readonly ModelVersion[] = [],
): Promise<Seeded | undefined> {
  // As text, because postgres.js would take a string meant as jsonb for a value still to be encoded.
  const models = JSON.stringify(
    file.models.map((model, position) => ({ ...model, upstreams: model.upstreams.map(withoutCost), position })),
  )
  const aliases = JSON.stringify(file.aliases)
  const [row] = await sql<(Seeded & { overtaken: boolean })[]>`
    with locked as materialized (
      select model, xmin::text as version from models order by model for update
    ), overtaken as materialized (
      select from locked join jsonb_to_recordset(${JSON.stringify(read)}::text::jsonb) as r (model text, version text) using (model)
      where locked.version <> r.version
    ), seed as (
      select * from jsonb_to_recordset(${models}::text::jsonb) as m (
        model text, position integer, display_name text, tier text, provider text, modality text,
        supports_vision boolean, supports_tools boolean,
        input_micro bigint, output_micro bigint, cache_read_micro bigint, cache_write_micro bigint,
        context_window integer, max_output_tokens integer, endpoints text[], upstreams jsonb, max_concurrency integer,
        fallback text[], strip text[], pass text[], unsupported text[], features text[], gather boolean, effective_at timestamptz
      ) where not exists (select from overtaken)
    ), alias_seed as (
      select * from jsonb_to_recordset(${aliases}::text::jsonb) as a (model text, target text, until timestamptz)
      where not exists (select from overtaken)
    ), written_models as (
      insert into models as m (
        model, position, display_name, tier, provider, modality, supports_vision, supports_tools, context_window,
        max_output_tokens, endpoints, upstream_provider, upstream_format, upstream_model, upstreams, max_concurrency,
        fallback, strip, pass, unsupported, features, gather, created_at
      )
      select
        model, position, display_name, tier, provider, modality, supports_vision, supports_tools, context_window,
        max_output_tokens, endpoints, upstreams->0->>'provider', upstreams->0->>'format', upstreams->0->>'model', upstreams,
        max_concurrency, fallback, strip, pass, unsupported, features, gather, ${now}::timestamptz
      from seed
      on conflict (model) do update set
        position = excluded.position, display_name = excluded.display_name, tier = excluded.tier,
        provider = excluded.provider, modality = excluded.modality, supports_vision = excluded.supports_vision,
        supports_tools = excluded.supports_tools, context_window = excluded.context_window,
        max_output_tokens = excluded.max_output_tokens, endpoints = excluded.endpoints,
        upstream_provider = excluded.upstream_provider, upstream_format = excluded.upstream_format,
        upstream_model = excluded.upstream_model, upstreams = excluded.upstreams, max_concurrency = excluded.max_concurrency,
        fallback = excluded.fallback, strip = excluded.strip, pass = excluded.pass, unsupported = excluded.unsupported,
        features = excluded.features, gather = excluded.gather
      where (m.position, m.display_name, m.tier, m.provider, m.modality, m.supports_vision, m.supports_tools,
          m.context_window, m.max_output_tokens, m.endpoints, m.upstream_provider, m.upstream_format, m.upstream_model,
          m.upstreams, m.max_concurrency, m.fallback, m.strip, m.pass, m.unsupported, m.features, m.gather)
        is distinct from (excluded.position, excluded.display_name, excluded.tier, excluded.provider, excluded.modality,
          excluded.supports_vision, excluded.supports_tools, excluded.context_window, excluded.max_output_tokens,
          excluded.endpoints, excluded.upstream_provider, excluded.upstream_format, excluded.upstream_model,
          excluded.upstreams, excluded.max_concurrency, excluded.fallback, excluded.strip, excluded.pass, excluded.unsupported,
          excluded.features, excluded.gather)
      -- A row that this statement inserted has no deleting transaction.
      returning xmax = 0 as added
    ), priced as (
      select seed.*, case
        when exists (select from prices p where p.model = seed.model)
          then greatest(coalesce(seed.effective_at, ${now}), ${now}::timestamptz)
        else coalesce(seed.effective_at, ${now})
      end as starts_at
      from seed
    ), written_prices as (
      insert into prices as p (model, input_micro, output_micro, cache_read_micro, cache_write_micro, effective_at, created_at)
      select s.model, s.input_micro, s.output_micro, s.cache_read_micro, s.cache_write_micro, s.starts_at, ${now}
      from priced s
      left join lateral (
        select * from prices v where v.model = s.model and v.effective_at <= s.starts_at
        order by v.effective_at desc limit 1
      ) held on true
      where (held.input_micro, held.output_micro, held.cache_read_micro, held.cache_write_micro)
        is distinct from (s.input_micro, s.output_micro, s.cache_read_micro, s.cache_write_micro)
      on conflict (model, effective_at) do update set
        input_micro = excluded.input_micro, output_micro = excluded.output_micro,
        cache_read_micro = excluded.cache_read_micro, cache_write_micro = excluded.cache_write_micro
      -- Nobody has been charged yet at a version that is still to come.
      where p.effective_at >= ${now}
      returning 1
    ), ${writtenCosts(sql, file, now)}, written_aliases as (
      insert into model_aliases (alias, target, until) select model, target, until from alias_seed
      on conflict (alias) do update set target = excluded.target, until = excluded.until
    ), followed as (
      update model_aliases a set target = retired.target from alias_seed retired
      where a.target = retired.model
        and a.alias not in (select model from alias_seed union all select model from seed)
    ), revived as (
      delete from model_aliases a using seed where a.alias = seed.model
    )
    select exists (select from overtaken) as overtaken,
      (select count(*) from written_models where added)::integer as "modelsAdded",
      (select count(*) from written_models where not added)::integer as "modelsChanged",
      (select count(*) from written_prices)::integer as "pricesAdded",
      (select count(*) from written_costs)::integer as "costsAdded"`
  if (row === undefined) throw new Error("Seeding returned no counts")
  const { overtaken, ...seeded } = row
  return overtaken ? undefined : seeded
}

/** Costs have versions, and stand in a table of their own. */
const withoutCost = (upstream: UpstreamSeed) => ({ ...upstream, cost: undefined })

/** All that is sold, with its prices and costs. A seeding in between shows as the catalogue before it or after it, never as a gap. */
export async function loadCatalogue(sql: Sql): Promise<Catalogue> {
  // Models before aliases and prices: a model that was read has its price, and one just retired is still known.
  const modelRows = await sql<ModelRow[]>`
    select m.* from models m
    where not exists (select from model_aliases a where a.alias = m.model)
    order by m.position, m.model`
  const aliases = await sql<Alias[]>`select alias as id, target, until from model_aliases order by alias`
  const priceRows = await sql<PriceRow[]>`
    select id, model, input_micro, output_micro, cache_read_micro, cache_write_micro, effective_at
    from prices order by model, effective_at`
  const memberRows = await sql<
    MemberRow[]
  >`select member, state, weight, retried_at from member_settings order by member`
  const live = new Set(modelRows.map((row) => row.model))
  return {
    models: modelRows.map((row) => modelOf(row, live)),
    prices: priceRows.map(priceOf),
    aliases: [...aliases],
    members: memberRows.map(({ member, state, weight, retried_at: retriedAt }) => ({
      member,
      state,
      weight: weight === null ? undefined : Number(weight),
      retriedAt: retriedAt?.getTime(),
    })),
    costs: await loadCosts(sql),
    exchangeRates: await loadExchangeRates(sql),
  }
}

interface MemberRow {
  readonly member: string
  readonly state: MemberState
  readonly weight: bigint | null
  readonly retried_at: Date | null
}

export interface ModelRow {
  readonly model: string
  readonly display_name: string
  readonly tier: string
  readonly provider: string
  readonly modality: string
  readonly supports_vision: boolean
  readonly supports_tools: boolean
  readonly context_window: number | null
  readonly max_output_tokens: number
  readonly endpoints: Endpoint[]
  readonly upstream_provider: string
  readonly upstream_format: BackendFormat
  readonly upstream_model: string
  readonly upstreams: UpstreamSeed[] | null
  readonly max_concurrency: number
  readonly fallback: string[]
  readonly strip: string[]
  readonly pass: string[]
  readonly unsupported: string[]
  readonly features: SoldFeature[]
  readonly gather: boolean
  readonly created_at: Date
}

const modelOf = (row: ModelRow, live: ReadonlySet<string>): Model => ({
  id: row.model,
  displayName: row.display_name,
  tier: row.tier,
  provider: row.provider,
  modality: row.modality,
  supportsVision: row.supports_vision,
  supportsTools: row.supports_tools,
  contextWindow: row.context_window,
  maxOutputTokens: row.max_output_tokens,
  endpoints: new Set(row.endpoints),
  upstreams: upstreamsOf(row),
  maxConcurrency: row.max_concurrency,
  // A model that an older file left behind may still name one that was retired since.
  fallback: row.fallback.filter((id) => live.has(id)),
  strip: row.strip,
  pass: row.pass,
  unsupported: row.unsupported,
  features: row.features,
  gather: row.gather,
  createdAt: row.created_at,
})

/** What the three columns of the first one alone say is what holds: a process of an earlier release writes nothing else. */
export function upstreamsOf(
  row: Pick<ModelRow, "upstream_provider" | "upstream_format" | "upstream_model" | "upstreams">,
): Upstreams {
  const { upstream_provider: provider, upstream_format: format, upstream_model: model } = row
  const [first = { provider, format, model }, ...others] = row.upstreams ?? []
  const isCurrent = first.provider === provider && first.format === format && first.model === model
  return isCurrent ? [upstreamOf(first), ...others.map(upstreamOf)] : [upstreamOf({ provider, format, model })]
}

const upstreamOf = (seed: UpstreamSeed): Upstream => ({
  provider: seed.provider,
  format: seed.format,
  model: seed.model,
  priority: seed.priority ?? 0,
  weight: seed.weight ?? 1,
  ...limitsOf(seed),
  set: seed.set,
  efforts: seed.efforts,
  needs: seed.needs,
})

export interface PriceRow {
  readonly id: bigint
  readonly model: string
  readonly input_micro: bigint
  readonly output_micro: bigint
  readonly cache_read_micro: bigint
  readonly cache_write_micro: bigint
  readonly effective_at: Date
}

export const priceOf = (row: PriceRow): PriceVersion => ({
  id: row.id,
  model: row.model,
  rates: {
    input: micro(row.input_micro),
    output: micro(row.output_micro),
    cacheRead: micro(row.cache_read_micro),
    cacheWrite: micro(row.cache_write_micro),
  },
  effectiveAt: row.effective_at.getTime(),
})

/** The database's catalogue, filled from the file if it is empty. */
export async function storedCatalogue(database: Database, file: CatalogueFile): Promise<Catalogue> {
  const stored = await database.run((sql) => loadCatalogue(sql), { retry: true })
  if (stored.models.length > 0) return stored
  await database.run((sql) => seedCatalogue(sql, file, new Date()), { retry: true })
  return await database.run((sql) => loadCatalogue(sql), { retry: true })
}
