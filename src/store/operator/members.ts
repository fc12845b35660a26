/** What operators set of the members of pools while they are at work. Each change is one statement with its row of the audit log. */
import type { MemberState } from "../../catalogue/model.ts"
import type { Database } from "../database.ts"
import { type Act, signature, signatureColumns } from "./audit.ts"

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

const once = { deadlineMs: 5_000, retry: true } as const

export const memberStore = (database: Database): MemberStore => ({
  async change(member, change, act) {
    const after = JSON.stringify(change)
    await database.run(
      (sql) => sql`
        with held as materialized (
          select state, weight from member_settings where member = ${member} for update
        ), wanted as (
          select ${after}::text::jsonb as fields
        ), before as (
          select coalesce(h.state, 'serving') as state, h.weight, w.fields from wanted w left join held h on true
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
