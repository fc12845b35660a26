/** The history of backends: what became of members of pools, with what operators did to them, and their tries by the hour. */
import type { Database, Sql } from "../database.ts"

export const backendEvents = ["opened", "closed", "credential_refused", "credential_accepted"] as const
export const memberActs = ["member.changed", "member.retried"] as const

/** What one process has seen within a minute until now. */
export interface BackendEvent {
  /** Minutes since the epoch. */
  readonly minute: number
  /** Its id; of a credential `provider/credential`. */
  readonly member: string
  /** Undefined of a credential. */
  readonly model: string | undefined
  readonly event: (typeof backendEvents)[number]
  /** Of the first; milliseconds since the epoch. */
  readonly at: number
  /** Of the failure by which it came, and its HTTP status where one came. */
  readonly class: string | undefined
  readonly status: number | undefined
  readonly times: number
}

/** What one process has counted of an hour until now. */
export interface BackendHour {
  /** Hours since the epoch. */
  readonly hour: number
  readonly member: string
  readonly model: string
  answered: number
  /** Without requests that the backend did not take. */
  failed: number
  rateLimited: number
  /** How many times to the first content fall into each step (`bucketOf`). */
  readonly steps: Map<number, number>
}

/** An event, or an operator's act. */
export interface HistoryEntry {
  readonly at: Date
  readonly event: BackendEvent["event"] | (typeof memberActs)[number]
  readonly member: string
  readonly model: string | undefined
  readonly class: string | undefined
  readonly status: number | undefined
  /** Of an act one. */
  readonly times: number
  /** Ids of those that saw it; of an act none. */
  readonly processes: readonly string[]
  /** Of an act; undefined for the command line. */
  readonly operator: { readonly id: string; readonly email: string } | undefined
  readonly requestId: string | undefined
  readonly before: unknown
  readonly after: unknown
  /** Where it stands: microseconds since the epoch, its kind, its id. */
  readonly place: HistoryPlace
}

export type HistoryPlace = readonly [micros: string, kind: string, id: string]

/** Of all processes. */
export interface HourSums {
  readonly hour: Date
  readonly tries: number
  readonly failed: number
  readonly rateLimited: number
  /** The step in which half of the times to the first content are reached. */
  readonly middleStep: number | undefined
}

export interface HistoryPage {
  readonly member: string | undefined
  readonly after: HistoryPlace | undefined
  readonly limit: number
}

export interface BackendHistoryStore {
  keep(events: readonly BackendEvent[], hours: readonly BackendHour[]): Promise<void>
  /** The newest first. Of a member, what became of its credential too. */
  list(page: HistoryPage): Promise<readonly HistoryEntry[]>
  /** Hours with tries, from that one on, in their order. */
  hours(from: Date, member: string | undefined): Promise<readonly HourSums[]>
  /** Finds the middle of hours that are over, from that one on, and forgets those of before. */
  keepMiddles(from: Date): Promise<void>
}

const MINUTE_S = 60
const HOUR_S = 3_600
const once = { deadlineMs: 5_000, retry: true } as const
const of = <T, V>(rows: readonly T[], value: (row: T) => V): V[] => rows.map(value)

/** A member's id begins with its credential's, whose parts may have slashes of their own. */
const beginningsOf = (member: string): string[] => {
  const words = member.split("/")
  return words.map((_, last) => words.slice(0, last + 1).join("/"))
}

export const backendHistoryStore = (database: Database, processId: string): BackendHistoryStore => ({
  // In one order, so that two processes cannot deadlock. A statement that is sent again writes the same counts.
  async keep(events, hours) {
    await database.run(
      (sql) => sql`
        with kept as (
          insert into backend_events as e (minute, member, model, event, at, class, status, processes)
          select to_timestamp(g.minute_s), g.member, g.model, g.event, g.at, g.class, g.status,
            jsonb_build_object(${processId}::text, g.times)
          from unnest(
            ${of(events, ({ minute }) => minute * MINUTE_S)}::bigint[], ${of(events, ({ member }) => member)}::text[],
            ${of(events, ({ model }) => model ?? "")}::text[], ${of(events, ({ event }) => event)}::text[],
            ${sql.array(of(events, ({ at }) => new Date(at)))}::timestamptz[],
            ${of(events, (one) => one.class ?? null)}::text[], ${of(events, ({ status }) => status ?? null)}::integer[],
            ${of(events, ({ times }) => times)}::bigint[]
          ) as g (minute_s, member, model, event, at, class, status, times)
          order by 1, 2, 3, 4
          on conflict (minute, member, model, event) do update set
            processes = e.processes || excluded.processes, class = excluded.class, status = excluded.status
        )
        insert into backend_hours as h (hour, member, model, process_id, answered, failed, rate_limited, steps, step_tries)
        select to_timestamp(g.hour_s), g.member, g.model, ${processId}, g.answered, g.failed, g.rate_limited,
          array(select jsonb_array_elements_text(g.steps->0)::smallint), array(select jsonb_array_elements_text(g.steps->1)::bigint)
        from unnest(
          ${of(hours, ({ hour }) => hour * HOUR_S)}::bigint[], ${of(hours, ({ member }) => member)}::text[],
          ${of(hours, ({ model }) => model)}::text[], ${of(hours, ({ answered }) => answered)}::bigint[],
          ${of(hours, ({ failed }) => failed)}::bigint[], ${of(hours, ({ rateLimited }) => rateLimited)}::bigint[],
          ${of(hours, ({ steps }) => stepsJson(steps))}::text[]::jsonb[]
        ) as g (hour_s, member, model, answered, failed, rate_limited, steps)
        order by 1, 2, 3
        on conflict (hour, member, model, process_id) do update set
          answered = excluded.answered, failed = excluded.failed, rate_limited = excluded.rate_limited,
          steps = excluded.steps, step_tries = excluded.step_tries`,
      once,
    )
  },

  async list({ member, after, limit }) {
    const rows = await database.run((sql) => {
      const before =
        after === undefined
          ? sql`true`
          : sql`(at, kind, id) < ('epoch'::timestamptz + ${after[0]}::bigint * interval '1 microsecond', ${after[1]}::text, ${after[2]}::bigint)`
      return sql<Row[]>`
        with events as (
          select * from (
            select at, 'e' as kind, id, event, member, model, class, status, processes,
              null::text as operator_id, null::text as request_id, null::jsonb as before, null::jsonb as after
            from backend_events
            where ${member === undefined ? sql`true` : sql`member = any(${beginningsOf(member)}::text[]) and (model = '' or member = ${member})`}
              ${after === undefined ? sql`` : sql`and at <= 'epoch'::timestamptz + ${after[0]}::bigint * interval '1 microsecond'`}
          ) e where ${before} order by at desc, id desc limit ${limit}
        ), acts as (
          select * from (
            select l.at, 'a' as kind, l.id, l.action as event, m.member, '' as model, null::text as class, null::integer as status,
              '{}'::jsonb as processes, l.operator_id, l.request_id, l.before, l.after
            from member_settings m join audit_log l on l.subject = m.member
            where l.action = any(${[...memberActs]}::text[]) ${member === undefined ? sql`` : sql`and m.member = ${member}`}
          ) a where ${before} order by at desc, id desc limit ${limit}
        )
        select h.*, a.email, (extract(epoch from h.at) * 1000000)::bigint::text as micros
        from (select * from events union all select * from acts) h left join accounts a on a.id = h.operator_id
        order by h.at desc, h.kind desc, h.id desc limit ${limit}`
    }, once)
    return rows.map(toEntry)
  },

  async hours(from, member) {
    const rows = await database.run(
      (sql) => sql<{ hour: Date; tries: number; failed: number; rate_limited: number; middle: number | null }[]>`
        with ${triesByHour(sql, from, member)}, known as (
          select t.hour, k.middle from tries t join backend_middles k on k.hour = t.hour and k.tries = t.tries where ${member === undefined}
        ), ${middlesOf(sql, sql`select hour from tries where hour not in (select hour from known)`, member)}
        select t.hour, t.tries::float8 as tries, t.failed::float8 as failed, t.rate_limited::float8 as rate_limited, m.middle::integer as middle
        from tries t left join (select * from known union all select * from middles) m on m.hour = t.hour
        where t.tries > 0 order by t.hour`,
      once,
    )
    return rows.map(({ hour, tries, failed, rate_limited: rateLimited, middle }) => ({
      hour,
      tries,
      failed,
      rateLimited,
      middleStep: middle ?? undefined,
    }))
  },

  async keepMiddles(from) {
    await database.run(
      (sql) => sql`
        with ${triesByHour(sql, from)}, due as materialized (
          select t.hour, t.tries from tries t
          where t.hour < date_trunc('hour', now(), 'UTC')
            and not exists (select from backend_middles k where k.hour = t.hour and k.tries = t.tries)
          order by t.hour desc limit ${MOST_MIDDLES}
        ), ${middlesOf(sql, sql`select hour from due`)}, gone as (
          delete from backend_middles where hour < ${from}
        )
        insert into backend_middles
        select d.hour, d.tries, m.middle from due d left join middles m using (hour) order by 1
        on conflict (hour) do update set tries = excluded.tries, middle = excluded.middle`,
      once,
    )
  },
})

/** Hours of which the middle is found in one round; the rest comes with the next ones. */
const MOST_MIDDLES = 50

const isOf = (sql: Sql, member: string | undefined) => (member === undefined ? sql`true` : sql`member = ${member}`)

/** As `tries`, in a statement. */
const triesByHour = (sql: Sql, from: Date, member?: string) => sql`tries as materialized (
  select hour, sum(answered + failed) as tries, sum(failed) as failed, sum(rate_limited) as rate_limited
  from backend_hours where hour >= ${from} and ${isOf(sql, member)} group by 1
)`

/** As `middles`, of some hours: the step that half of their times are within. */
const middlesOf = (sql: Sql, hours: ReturnType<Sql>, member?: string) => sql`counted as (
  select h.hour, s.step, sum(s.tries) as tries
  -- Each hour by the index, however few there are.
  from (${hours}) asked cross join lateral (
    select hour, steps, step_tries from backend_hours where hour = asked.hour and ${isOf(sql, member)} offset 0
  ) h cross join lateral unnest(h.steps, h.step_tries) as s (step, tries) group by 1, 2
), upto as (
  select hour, step, sum(tries) over (partition by hour order by step) as reached, sum(tries) over (partition by hour) as of_all from counted
), middles as (
  select hour, min(step)::integer as middle from upto where 2 * reached >= of_all group by 1
)`

/** In the steps' order, and how many fall into each. */
const stepsJson = (steps: ReadonlyMap<number, number>): string => {
  const sorted = [...steps].sort(([a], [b]) => a - b)
  return JSON.stringify([sorted.map(([step]) => step), sorted.map(([, tries]) => tries)])
}

interface Row {
  at: Date
  kind: string
  id: bigint
  event: HistoryEntry["event"]
  member: string
  model: string
  class: string | null
  status: number | null
  processes: Record<string, number>
  operator_id: string | null
  request_id: string | null
  before: unknown
  after: unknown
  email: string | null
  micros: string
}

const toEntry = (row: Row): HistoryEntry => ({
  at: row.at,
  event: row.event,
  member: row.member,
  model: row.model === "" ? undefined : row.model,
  class: row.class ?? undefined,
  status: row.status ?? undefined,
  times: row.kind === "a" ? 1 : Object.values(row.processes).reduce((sum, times) => sum + times, 0),
  processes: Object.keys(row.processes),
  operator: row.operator_id === null ? undefined : { id: row.operator_id, email: row.email ?? "" },
  requestId: row.request_id ?? undefined,
  before: row.before,
  after: row.after,
  place: [row.micros, row.kind, String(row.id)],
})
