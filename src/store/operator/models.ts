/**
 * The catalogue as operators change it: models with all their price versions, retired ones too. Each change is one statement
 * with its row of the audit log, and marks the fields that the catalogue file does not set any more (`edited`).
 */
import { type Rates, inForce } from "../../../actors/money/price.ts"
import type { MemberState, PriceVersion } from "../../catalogue/model.ts"
import type { Edited } from "../../catalogue/references.ts"
import { type ModelRow, type PriceRow, priceOf } from "../catalogue.ts"
import type { Database, Sql } from "../database.ts"
import { type Act, signature, signatureColumns } from "./audit.ts"

/** What operators are shown of a model's row. */
export interface StoredModel extends Omit<ModelRow, "strip" | "unsupported" | "features" | "gather" | "created_at"> {
  /** What an operator has set: names of columns, `price` or `retired`. */
  readonly edited: readonly string[]
  /** Of a retired model: what it is served as, and until when. */
  readonly target: string | null
  readonly until: Date | null
}

/** What an operator may set of a model; what is absent stays. */
export interface ModelChange {
  readonly display_name?: string
  readonly tier?: string
  readonly max_concurrency?: number
  readonly fallback?: readonly string[]
  readonly pass?: readonly string[]
}

interface PricePlan {
  readonly model: string
  readonly rates: Rates
  readonly effectiveAt: Date
  /** JSON of the price that it takes the place of. */
  readonly before: object | null
}

export interface ModelStore {
  /** In catalogue order. */
  list(): Promise<readonly StoredModel[]>
  /** By model and time. */
  prices(): Promise<readonly PriceVersion[]>
  change(model: string, change: ModelChange, act: Act): Promise<void>
  /** Its id; undefined when there is another price of that very time. */
  schedule(plan: PricePlan, act: Act): Promise<bigint | undefined>
  /** False when it is not there, or is in force before `safeAt`. */
  unschedule(model: string, priceId: bigint, safeAt: Date, act: Act): Promise<boolean>
  /** False when the target is not sold any more. */
  retire(model: string, to: { readonly target: string; readonly until: Date }, act: Act): Promise<boolean>
  restore(model: string, act: Act): Promise<void>
}

const once = { deadlineMs: 5_000, retry: true } as const

export function modelStore(database: Database): ModelStore {
  return {
    async list() {
      return await database.run(
        (sql) => sql<StoredModel[]>`
          select m.*, a.target, a.until from models m left join model_aliases a on a.alias = m.model
          order by m.position, m.model`,
        once,
      )
    },

    async prices() {
      const rows = await database.run(
        (sql) => sql<PriceRow[]>`
          select id, model, input_micro, output_micro, cache_read_micro, cache_write_micro, effective_at
          from prices order by model, effective_at`,
        once,
      )
      return rows.map(priceOf)
    },

    async change(model, change, act) {
      const after = JSON.stringify(change)
      await database.run(
        (sql) => sql`
          with target as materialized (
            select * from models where model = ${model} for update
          ), proposed as (
            select ${after}::text::jsonb as fields
          ), before as (
            select (select jsonb_object_agg(key, value) from jsonb_each(to_jsonb(t)) where w.fields ? key) as fields
            from target t, proposed w
          ), changed as (
            update models m set display_name = coalesce(w.fields->>'display_name', t.display_name),
              tier = coalesce(w.fields->>'tier', t.tier),
              max_concurrency = coalesce((w.fields->>'max_concurrency')::integer, t.max_concurrency),
              fallback = case when w.fields ? 'fallback'
                then array(select jsonb_array_elements_text(w.fields->'fallback')) else t.fallback end,
              pass = case when w.fields ? 'pass'
                then array(select jsonb_array_elements_text(w.fields->'pass')) else t.pass end,
              edited = array(select unnest(t.edited) union select jsonb_object_keys(w.fields))
            from target t, proposed w, before b where m.model = t.model and b.fields <> w.fields
            returning m.model
          ), logged as (
            insert into audit_log (${signatureColumns(sql)}, action, subject, before, after)
            select ${signature(sql, act)}, 'model.changed', c.model, b.fields, w.fields from changed c, before b, proposed w
          )
          select 1`,
        once,
      )
    },

    async schedule({ model, rates, effectiveAt, before }, act) {
      const [row] = await database.run(
        (sql) => sql<{ id: bigint }[]>`
          with placed as (
            insert into prices (model, input_micro, output_micro, cache_read_micro, cache_write_micro, effective_at)
            values (${model}, ${rates.input}, ${rates.output}, ${rates.cacheRead}, ${rates.cacheWrite}, ${effectiveAt})
            on conflict (model, effective_at) do nothing returning *
          ), marked as (
            ${mark(sql, "price", sql`select model from placed`)}
          ), logged as (
            insert into audit_log (${signatureColumns(sql)}, action, subject, before, after)
            select ${signature(sql, act)}, 'model.price_scheduled', p.model,
              ${before === null ? null : JSON.stringify(before)}::text::jsonb,
              to_jsonb(p) - 'model' - 'created_at' from placed p
            returning (after->>'id')::bigint as id
          )
          select id from logged union
          select (after->>'id')::bigint from audit_log where request_id = ${act.requestId}`,
        once,
      )
      return row?.id
    },

    async unschedule(model, priceId, safeAt, act) {
      const rows = await database.run(
        (sql) => sql`
          with gone as (
            delete from prices where id = ${priceId} and model = ${model} and effective_at > ${safeAt} returning *
          ), logged as (
            insert into audit_log (${signatureColumns(sql)}, action, subject, before)
            select ${signature(sql, act)}, 'model.price_deleted', g.model, to_jsonb(g) - 'model' - 'created_at' from gone g
            returning 1
          )
          select 1 from logged union select 1 from audit_log where request_id = ${act.requestId}`,
        once,
      )
      return rows.length > 0
    },

    async retire(model, { target, until }, act) {
      // A statement does not see what was committed after it began: where one of the two models was changed while it waited for them, it
      // does nothing, and is made anew. So it marks its target as changed too, for whoever retires that one at this moment.
      for (;;) {
        const [row] = await database.run(
          (sql) => sql<{ is_current: boolean; is_sold: boolean }[]>`
            with locked as materialized (
              select m.model from models m
              where m.model in (${model}, ${target}) and m.xmin = (select s.xmin from models s where s.model = m.model)
              order by m.model for update
            ), judged as (
              select (select count(*) from locked) = (select count(*) from models where model in (${model}, ${target})) as is_current,
                not exists (select from model_aliases where alias = ${target}) as is_sold
            ), held as (
              select l.model, to_jsonb(a) - 'alias' as before from judged j, locked l left join model_aliases a on a.alias = l.model
              where j.is_current and j.is_sold and l.model = ${model}
            ), placed as (
              insert into model_aliases as a (alias, target, until) select model, ${target}, ${until} from held
              on conflict (alias) do update set target = excluded.target, until = excluded.until
              where (a.target, a.until) is distinct from (excluded.target, excluded.until)
              returning alias, target, until
            ), followed as (
              -- Ids that were retired to this one before.
              update model_aliases a set target = p.target from placed p where a.target = p.alias and a.alias <> p.target
            ), marked as (
              ${mark(sql, "retired", sql`select alias from placed`)}
            ), shown as (
              update models m set edited = m.edited from placed p where m.model = p.target
            ), logged as (
              insert into audit_log (${signatureColumns(sql)}, action, subject, before, after)
              select ${signature(sql, act)}, 'model.retired', p.alias, h.before, to_jsonb(p) - 'alias' from placed p, held h
            )
            select is_current, is_sold from judged`,
          once,
        )
        if (row?.is_current === true) return row.is_sold
      }
    },

    async restore(model, act) {
      await database.run(
        (sql) => sql`
          with gone as (
            delete from model_aliases where alias = ${model} returning alias, target, until
          ), marked as (
            ${mark(sql, "retired", sql`select alias from gone`)}
          )
          insert into audit_log (${signatureColumns(sql)}, action, subject, before)
          select ${signature(sql, act)}, 'model.restored', g.alias, to_jsonb(g) - 'alias' from gone g`,
        once,
      )
    },
  }
}

const mark = (sql: Sql, field: string, models: ReturnType<Sql>) => sql`
  update models set edited = array(select unnest(edited) union select ${field}::text) where model in (${models})`

/** What operators have set of the catalogue, for the command that applies the catalogue file. */
export async function readEdits(database: Database, now: Date): Promise<Edited[]> {
  const store = modelStore(database)
  const [models, prices] = [await store.list(), await store.prices()]
  return models
    .filter(({ edited }) => edited.length > 0)
    .map((row) => ({
      model: row.model,
      fields: row.edited,
      now: { ...row },
      rates: inForce(
        prices.filter(({ model }) => model === row.model),
        now.getTime(),
      )?.rates,
      isRetired: row.target !== null,
    }))
}

/** Forgets what operators have set, so that the file applies whole; written down, as whatever operators do. */
export async function forgetEdits(database: Database, act: Act): Promise<void> {
  await database.run(
    (sql) => sql`
      with held as materialized (
        select model, edited from models where edited <> '{}' order by model for update
      ), forgotten as (
        update models m set edited = '{}' from held h where m.model = h.model
      )
      insert into audit_log (${signatureColumns(sql)}, action, subject, before)
      select ${signature(sql, act)}, 'catalogue.overwritten', 'catalogue', jsonb_object_agg(model, edited) from held
      having count(*) > 0`,
    { deadlineMs: 5_000 },
  )
}

// What operators set of the members of pools while they are at work. Each change is one statement with its row of the audit log.

/** What is absent stays. */
export interface MemberChange {
  readonly state?: MemberState
  /** Null for the catalogue's. */
  readonly weight?: number | null
}

export interface MemberStore {
  change(member: string, change: MemberChange, act: Act): Promise<void>
  /** Every process forgets what it has found out about the member. */
  retry(member: string, at: Date, act: Act): Promise<void>
}

export const memberStore = (database: Database): MemberStore => ({
  async change(member, change, act) {
    const after = JSON.stringify(change)
    await database.run(
      (sql) => sql`
        with held as materialized (
          select state, weight from member_settings where member = ${member} for update
        ), proposed as (
          select ${after}::text::jsonb as fields
        ), before as (
          select coalesce(h.state, 'serving') as state, h.weight, w.fields from proposed w left join held h on true
        ), next as (
          select coalesce(fields->>'state', state) as state,
            case when fields ? 'weight' then (fields->>'weight')::bigint else weight end as weight
          from before
        ), changed as (
          insert into member_settings as m (member, state, weight)
          select ${member}, n.state, n.weight from next n, before b
          where (n.state, n.weight) is distinct from (b.state, b.weight)
          on conflict (member) do update set state = excluded.state, weight = excluded.weight
          returning 1
        )
        insert into audit_log (${signatureColumns(sql)}, action, subject, before, after)
        select ${signature(sql, act)}, 'member.changed', ${member},
          (select jsonb_object_agg(key, value) from jsonb_each(to_jsonb(b)) where b.fields ? key), b.fields
        from changed, before b`,
      once,
    )
  },

  async retry(member, at, act) {
    await database.run(
      (sql) => sql`
        with retried as (
          insert into member_settings as m (member, retried_at) values (${member}, ${at})
          on conflict (member) do update set retried_at = excluded.retried_at
          where m.retried_at is distinct from excluded.retried_at
          returning retried_at
        )
        insert into audit_log (${signatureColumns(sql)}, action, subject, after)
        select ${signature(sql, act)}, 'member.retried', ${member}, to_jsonb(r) from retried r`,
      once,
    )
  },
})
