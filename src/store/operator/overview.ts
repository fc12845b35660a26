/** What the house made and gave away in a time, and what stands now: sums over every account. Micro-rupiah. */
import { type Micro, micro } from "../../../actors/money/micro.ts"
import type { Database, Sql } from "../database.ts"
import { LONGEST_ARRIVAL_MS } from "../usage.ts"
import { once, partsOfDays, readCountedDays, sums } from "./profit-parts.ts"

export interface Overview {
  readonly calls: number
  readonly byStatus: Readonly<Record<string, number>>
  readonly byErrorCode: Readonly<Record<string, number>>
  readonly chargedMicro: Micro
  readonly absorbedMicro: Micro
  readonly topUps: number
  readonly toppedUpMicro: Micro
  /** Of what was paid, less those that went back; below zero where more went back. */
  readonly serviceFeesMicro: Micro
  /** Given less taken. */
  readonly adjustedMicro: Micro
  /** Given as trial credit. */
  readonly trialMicro: Micro
  readonly newAccounts: number
  readonly now: {
    readonly accounts: number
    readonly frozenAccounts: number
    /** What customers have: the house owes it. */
    readonly balancesMicro: Micro
    readonly heldMicro: Micro
    readonly openCalls: number
    readonly processes: number
  }
}

/** A sum over many records may take longer than what a customer waits for. */
const patient = { deadlineMs: 15_000, attemptMs: 5_000, retry: true } as const

export async function readOverview(database: Database, period: CallPeriod, firstId: FirstId): Promise<Overview> {
  const { from, to } = period
  const [row] = await database.run(
    (sql) => sql<Row[]>`
      with ${callSums(sql, period, firstId)}, paid as (
        select count(*)::int as count, coalesce(sum(balance_purchased_micro), 0)::bigint as amount,
          coalesce(sum(service_fee_micro), 0)::bigint as fees
        from top_ups where status = 'paid' and paid_at >= ${from} and paid_at < ${to}
      ), returned as (
        select (coalesce(sum(service_fee_micro) filter (where created_at >= ${from} and created_at < ${to}), 0)
          - coalesce(sum(service_fee_micro) filter (where cancelled_at >= ${from} and cancelled_at < ${to}), 0))::bigint as fees
        from refunds
      ), adjusted as (
        select coalesce(sum(case debit_account when 'house:adjustments' then amount_micro else -amount_micro end), 0)::bigint
          as amount
        from transfers
        where (debit_account = 'house:adjustments' or credit_account = 'house:adjustments')
          and created_at >= ${from} and created_at < ${to}
      ), trial as (
        select coalesce(sum(amount_micro), 0)::bigint as amount from trial_credits where given_at >= ${from} and given_at < ${to}
      ), people as (
        select count(*) filter (where deleted_at is null)::int as accounts,
          count(*) filter (where frozen_at is not null and deleted_at is null)::int as frozen,
          count(*) filter (where created_at >= ${from} and created_at < ${to})::int as new
        from accounts
      )
      select coalesce((select sum(calls) from records), 0)::int as calls,
        coalesce((select jsonb_object_agg(status, calls) from (
          select status, sum(calls)::int as calls from records group by status) s), '{}') as by_status,
        coalesce((select jsonb_object_agg(error_code, calls) from (
          select error_code, sum(calls)::int as calls from records where error_code is not null group by error_code
        ) e), '{}') as by_error_code,
        coalesce((select sum(charged) from records), 0)::bigint as charged,
        coalesce((select sum(absorbed) from records), 0)::bigint as absorbed,
        paid.count as top_ups, paid.amount as topped_up, paid.fees - returned.fees as fees, adjusted.amount as adjusted, trial.amount as trial,
        people.accounts, people.frozen, people.new,
        (select coalesce(sum(posted_micro), 0)::bigint from balances) as balances,
        (select coalesce(sum(hold_micro), 0)::bigint from openings) as held,
        (select count(*)::int from openings) as open_calls,
        (select count(*)::int from processes where closed_at is null) as processes
      from paid, returned, adjusted, trial, people`,
    patient,
  )
  if (row === undefined) throw new Error("an overview returned nothing")
  return {
    calls: row.calls,
    byStatus: row.by_status,
    byErrorCode: row.by_error_code,
    chargedMicro: micro(row.charged),
    absorbedMicro: micro(row.absorbed),
    topUps: row.top_ups,
    toppedUpMicro: micro(row.topped_up),
    serviceFeesMicro: micro(row.fees),
    adjustedMicro: micro(row.adjusted),
    trialMicro: micro(row.trial),
    newAccounts: row.new,
    now: {
      accounts: row.accounts,
      frozenAccounts: row.frozen,
      balancesMicro: micro(row.balances),
      heldMicro: micro(row.held),
      openCalls: row.open_calls,
      processes: row.processes,
    },
  }
}

/** A day of the operator's zone. */
export interface DaySums {
  /** Such as 2026-11-20. */
  readonly day: string
  readonly calls: number
  /** Charges and service fees, less the fees that went back. */
  readonly revenueMicro: Micro
  readonly newAccounts: number
  /** Accounts with a call. */
  readonly activeAccounts: number
}

/**
 * The days of a time on which anything was, in order. Calls are read from the sums of hours, customers from the counts of days
 * and from the sums of parts of days (`profit-parts.ts`), so that no record is read of what is summed. A day begins with the hour in which it begins in the zone.
 */
export async function readDays(
  database: Database,
  period: CallPeriod & { readonly timeZone: string },
  firstId: FirstId,
): Promise<readonly DaySums[]> {
  const { from, to, timeZone } = period
  const { counted, uncounted } = await readCountedDays(database, period)
  const [days, accounts] = [counted.map(({ day }) => day), counted.map((of) => of.accounts)]
  const rows = await database.run((sql) => {
    const dayOf = (time: ReturnType<Sql>) => sql`(${time} at time zone ${timeZone})::date`
    const callers = uncounted.reduce(
      (all, gap) => sql`${all}
          union all
          select day, 0, 0, 0, count(*) from (
            select distinct ${dayOf(sql`hour`)} as day, account_id
            from ${sums(sql, "accounts", gap, partsOfDays(gap, timeZone))} where records > 0
          ) callers group by 1`,
      sql``,
    )
    return sql<DayRow[]>`
        with ${callSums(sql, period, firstId)}, sums as (
          select ${dayOf(sql`since`)} as day, sum(calls) as calls, sum(charged) as revenue, 0 as made, 0 as active from records group by 1
          union all
          select ${dayOf(sql`paid_at`)}, 0, sum(service_fee_micro), 0, 0 from top_ups
          where status = 'paid' and paid_at >= ${from} and paid_at < ${to} group by 1
          union all
          select ${dayOf(sql`created_at`)}, 0, -sum(service_fee_micro), 0, 0 from refunds
          where created_at >= ${from} and created_at < ${to} group by 1
          union all
          select ${dayOf(sql`cancelled_at`)}, 0, sum(service_fee_micro), 0, 0 from refunds
          where cancelled_at >= ${from} and cancelled_at < ${to} group by 1
          union all
          select ${dayOf(sql`created_at`)}, 0, 0, count(*), 0 from accounts
          where created_at >= ${from} and created_at < ${to} group by 1
          union all
          select day::date, 0, 0, 0, accounts from unnest(${days}::text[], ${accounts}::bigint[]) as counted (day, accounts)
          ${callers}
        )
        select to_char(day, 'YYYY-MM-DD') as day, sum(calls)::int as calls, sum(revenue)::bigint as revenue, sum(made)::int as made,
          sum(active)::int as active
        from sums group by sums.day order by sums.day`
  }, patient)
  return rows.map(({ day, calls, revenue, made, active }) => ({
    day,
    calls,
    revenueMicro: micro(revenue),
    newAccounts: made,
    activeAccounts: active,
  }))
}

interface DayRow {
  day: string
  calls: number
  revenue: bigint
  made: number
  active: number
}

interface Row {
  calls: number
  by_status: Record<string, number>
  by_error_code: Record<string, number>
  charged: bigint
  absorbed: bigint
  top_ups: number
  topped_up: bigint
  fees: bigint
  adjusted: bigint
  trial: bigint
  accounts: number
  frozen: number
  new: number
  balances: bigint
  held: bigint
  open_calls: number
  processes: number
}

// How final records ended, and their times to the first token, by the hour: sums of hours that are over, and of the others the records themselves, so that three months
// are read at once however many calls there were. Micro-rupiah.

/** What all request ids of a millisecond begin with. */
export type FirstId = (ms: number) => string

/** Records that were opened from `from` on and before `to`. */
export interface CallPeriod {
  readonly from: Date
  readonly to: Date
}

const HOUR_MS = 3_600_000
/** Hours that are summed in one round; the rest comes with the next ones. */
const MOST_HOURS = 500
/** As far as a range of usage reaches, and a day. Older hours are read from their records. */
const REACH_DAYS = 367

/** Its whole hours, and what is left at its ends. */
function piecesOf({ from, to }: CallPeriod): readonly { readonly since: number; readonly until: number }[] {
  const pieces: { since: number; until: number }[] = []
  for (let since = from.getTime(); since < to.getTime();) {
    const until = Math.min((Math.floor(since / HOUR_MS) + 1) * HOUR_MS, to.getTime())
    pieces.push({ since, until })
    since = until
  }
  return pieces
}

/** As `records`, in a statement: rows of an hour's `since`, `status`, `error_code`, `calls`, `charged` and `absorbed`. */
function callSums(sql: Sql, period: CallPeriod, firstId: FirstId) {
  const pieces = piecesOf(period)
  const times = (of: "since" | "until") => sql.array(pieces.map((piece) => new Date(piece[of])))
  const firstIds = pieces.map(({ since }) => firstId(since - LONGEST_ARRIVAL_MS))
  const endIds = pieces.map(({ until }) => firstId(until))
  return sql`pieces as materialized (
    select p.*, p.until = p.since + interval '1 hour' and p.since in (select hour from call_summed)
      and p.since not in (select hour from call_late) as summed
    from unnest(${times("since")}::timestamptz[], ${times("until")}::timestamptz[], ${firstIds}::text[], ${endIds}::text[])
      as p (since, until, first_id, end_id)
  ), records as (
    select hour as since, status, nullif(error_code, '') as error_code, sum(calls)::int as calls, sum(charge_micro)::bigint as charged,
      sum(absorbed_micro)::bigint as absorbed
    from call_hours where hour >= ${period.from} and hour < ${period.to} and hour in (select since from pieces where summed)
    group by 1, 2, 3
    union all
    select p.since, u.status, u.error_code, count(*)::int, sum(u.charge_micro)::bigint, sum(u.absorbed_micro)::bigint
    -- Each by its ids, however many records there are.
    from pieces p cross join lateral (
      select status, error_code, charge_micro, absorbed_micro from usage
      where request_id >= p.first_id and request_id < p.end_id and part = 0 and opened_at >= p.since and opened_at < p.until
      offset 0
    ) u
    where not p.summed group by 1, 2, 3
  )`
}

/**
 * Sums the hours that are over, each in a statement of its own: those that changed first, then the newest. What was summed and is not over was summed
 * by a clock that was ahead: it is marked, or what is booked in it from now on would be in no sum.
 */
export async function sumCallHours(database: Database, firstId: FirstId): Promise<void> {
  for (let hour = 0; hour < MOST_HOURS; hour++) {
    const [next] = await database.run(
      (sql) => sql<{ hour: Date | null }[]>`
        with ahead as (
          insert into call_late select hour from call_summed
          where hour > now() - interval '3 hours' and hour not in (select hour from call_late)
        )
        select coalesce((select min(hour) from call_late where hour <= over), (
          -- Where there is no record there is no hour either.
          select max(hour) from (select date_trunc('hour', opened_at, 'UTC') as at from usage order by request_id limit 1) oldest,
            generate_series(greatest(at, date_trunc('hour', over, 'UTC') - make_interval(days => ${REACH_DAYS})), over, '1 hour') as hour
          -- Those of before there were times to the first token are summed again.
          where not exists (select from latency_summed s where s.hour = hour.hour)
        )) as hour
        from (select now() - interval '3 hours' as over) times`,
      patient,
    )
    const since = next?.hour?.getTime()
    if (since === undefined) return
    const [done] = await database.run(
      (sql) => sql<{ summed: boolean }[]>`
        select sum_call_hour_1(${new Date(since)}, ${firstId(since - LONGEST_ARRIVAL_MS)}, ${firstId(since + HOUR_MS)}) as summed`,
      once,
    )
    if (done?.summed !== true) return
  }
}
