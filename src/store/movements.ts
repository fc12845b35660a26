/**
 * What moved an account's balance. First movements beside its calls: top-ups, adjustments, and whatever else is a transfer of it.
 * Then charges of its calls, each a transfer from it to `house:revenue`. Micro-rupiah. A movement is positive for what came.
 */
import { type Micro, micro } from "../../actors/money/micro.ts"
import type { Database, Sql } from "./database.ts"
import { afterCall, atLeastNewest, atLeastOldest, beforeCall, callsOf, fromCall, sumsOfHours } from "./usage-spans.ts"

export interface Movement {
  readonly id: bigint
  readonly at: Date
  readonly amountMicro: Micro
  /** What it adds to the claim on the account, or, negative, settles of it. What was spent already moves this alone. */
  readonly claimMicro: Micro
  /** Of the transfer: `top_up`, `adjustment`, `trial_credit`, `refund`, `provider_refund`, `chargeback`, `refund_cancelled`, `claim`. */
  readonly reason: string
  /** The top-up that was paid, or that went back. */
  readonly topUpId: string | undefined
  /** Of an adjustment or a refund, what its operator wrote. */
  readonly note: string | undefined
}

interface Movements {
  /** What all those before the range came to, and what of it was claimed. */
  readonly beforeMicro: Micro
  readonly claimBeforeMicro: Micro
  /** From the oldest. */
  readonly list: readonly Movement[]
}

export interface MovementStore {
  /** `from` is included, `to` is not. */
  within(range: { readonly accountId: string; readonly from: Date; readonly to: Date }): Promise<Movements>
}

const once = { deadlineMs: 5_000, retry: true } as const

interface Row {
  /** Null in the one row of all that came before. */
  readonly id: bigint | null
  readonly created_at: Date
  readonly amount: bigint
  readonly claim: bigint
  readonly reason: string
  readonly top_up: string | null
  readonly note: string | null
}

export function movementStore(database: Database): MovementStore {
  return {
    async within({ accountId, from, to }) {
      const rows = await database.run(
        (sql) => sql<Row[]>`
          with mine as materialized (${ofAccount(sql, accountId, to)})
          select null as id, null as created_at, coalesce(sum(amount), 0)::bigint as amount,
            coalesce(sum(claim), 0)::bigint as claim, null as reason, null as top_up, null as note
          from mine where created_at < ${from}
          union all
          select m.id, m.created_at, m.amount, m.claim, m.reason, coalesce(t.id, r.top_up_id),
            case when r.kind = 'refund' then r.reason when m.reason = 'adjustment' then (select l.reason from audit_log l where l.subject = ${accountId}
              and l.action = 'account.adjusted' and l.after->>'transfer' = m.idempotency_key) end
          from mine m left join top_ups t on t.account_id = ${accountId} and m.reason = 'top_up'
            and m.idempotency_key = concat_ws(':', 'topup', t.provider, t.reference)
          left join refunds r on split_part(m.idempotency_key, ':', 1) in ('refund', 'refund-cancelled')
            and r.id = split_part(m.idempotency_key, ':', 2)
          where m.created_at >= ${from}
          order by 1 nulls first`,
        once,
      )
      const list = rows.flatMap((row) => (row.id === null ? [] : [movementOf(row.id, row)]))
      const before = rows.find(({ id }) => id === null)
      return { beforeMicro: micro(before?.amount ?? 0n), claimBeforeMicro: micro(before?.claim ?? 0n), list }
    },
  }
}

/** The transfers that credit an account. Said in the words of the index that has them, which is without the house's revenue. */
export const credits = (sql: Sql, accountId: string) =>
  sql`credit_account = ${accountId} and credit_account <> 'house:revenue'`

/** Each side by its index, and what was claimed at once. */
const ofAccount = (sql: Sql, accountId: string, to: Date) => sql`
  select id, created_at, amount_micro as amount, 0 as claim, reason, idempotency_key from transfers
  where ${credits(sql, accountId)} and reason <> 'void' and created_at < ${to}
  union all
  select id, created_at, -amount_micro, case reason when 'claim' then -amount_micro else 0 end, reason, idempotency_key from transfers
  where debit_account = ${accountId} and reason <> 'charge' and created_at < ${to}
  union all
  select id, created_at, 0, amount_micro, reason, idempotency_key from transfers
  where debit_account = ${`house:claims:${accountId}`} and reason <> 'charge' and created_at < ${to}`

const movementOf = (id: bigint, row: Row): Movement => ({
  id,
  at: row.created_at,
  amountMicro: micro(row.amount),
  claimMicro: micro(row.claim),
  reason: row.reason,
  topUpId: row.top_up ?? undefined,
  note: row.note ?? undefined,
})

/** Which of many are enough: of records, and of charges in a table of their own. */
interface Most {
  readonly records: ReturnType<Sql>
  readonly apart: ReturnType<Sql>
}

/**
 * Charges of calls. A record is its charge (migrations/0096_records_are_charges.sql). Charges of calls before that are in a table
 * of their own, where they are found by their records. Where those records are archived, an index that archiving makes finds them.
 * A month that has been archived since then has one transfer of all its charges.
 *
 * Rows of `request_id`, `amount_micro`, `at`, and `archive`, in no order. `at` is when the call had ended or, of an archived one, when it
 * came. `archive` is set on the row of a whole month.
 */
const charges = (
  sql: Sql,
  accountId: string,
  which: ReturnType<Sql>,
  most: Most = { records: sql``, apart: sql`` },
  newer = sql`
    select u.request_id, u.charge_micro, ${ended(sql)} from usage u
    where ${callsOf(sql, accountId)} and u.charge_micro > 0 and ${fromCall(sql, firstCharged(sql))} and ${which} ${most.records}`,
) => sql`
  (select *, null as archive from (${newer}) u (request_id, amount_micro, at))
  union all
  (select u.request_id, c.amount_micro, ${ended(sql)}, null
    from usage u join charges c on c.request_id = u.request_id
    -- Of one that was taken back the record has no charge any more.
    where ${callsOf(sql, accountId)} and (u.charge_micro > 0 or u.status = 'billing_error')
      and ${fromCall(sql, sql`greatest(${archived(sql)}, ${first(sql)})`)} and ${beforeCall(sql, end(sql))} and ${which} ${most.records})
  union all
  (select u.request_id, u.amount_micro, call_at(u.request_id), null from charges u
    where u.account_id = ${accountId} and u.request_id < ${archived(sql)} and ${which} ${most.apart})
  union all
  (select * from (
      -- Before any call of the month, and a request id as a page's place has to be.
      select greatest(a.from_call, ${end(sql)}, 'req_0') as request_id, c.amount_micro, a.until_at, a.name
      from archived_charges c join archives a on a.name = c.archive where c.account_id = ${accountId}
    ) u where ${which})`

const ended = (sql: Sql) => sql`u.opened_at + u.duration_ms * interval '1 millisecond'`
const archived = (sql: Sql): ReturnType<Sql> => sql`(select coalesce(max(until_call), '') from archives)`
/** Calls before it were charged in `transfers`. */
const first = (sql: Sql): ReturnType<Sql> => sql`(select coalesce(min(request_id), 'req_z') from charges)`
/** From it on records are charges. */
const end = (sql: Sql): ReturnType<Sql> => sql`(select until_call from charges_end)`

/** After any call. */
const LAST = "req_zzzzzzzzzz"

/** At least so many of the newest before a call, or all of them. */
export const newestCharges = (sql: Sql, accountId: string, before: string | undefined, limit: number) =>
  charges(
    sql,
    accountId,
    before === undefined ? sql`true` : beforeCall(sql, before),
    { records: atLeastNewest(sql, limit), apart: sql`order by u.request_id desc limit ${limit}` },
    sql`select * from newest_charges_1(${accountId}, ${firstCharged(sql)}, ${before ?? LAST}, ${limit})`,
  )

/** At least so many of the oldest after a call, or all of them. */
export const oldestCharges = (sql: Sql, accountId: string, after: string, limit: number) =>
  charges(sql, accountId, afterCall(sql, after), {
    records: atLeastOldest(sql, limit),
    apart: sql`order by u.request_id limit ${limit}`,
  })

/** From it on records that are here are charges. */
const firstCharged = (sql: Sql) => sql`greatest(${archived(sql)}, ${end(sql)})`

/** What those from a call on come to. Of hours that are whole their sums are read, so that it makes no difference how many calls there are. */
export const chargedFrom = (sql: Sql, accountId: string, from: string) => sql`(
  with place as materialized (
    -- From this call on records are charges. A call is opened within an hour of its id: all of a later hour came after it.
    select call, date_trunc('hour', call_at(call), 'UTC') + interval '2 hours' as hour
    from (select greatest(${from}, ${archived(sql)}, ${end(sql)}) as call) latest
  )
  select coalesce(sum(amount_micro), 0) from (
    select amount_micro from (${charges(sql, accountId, sql`${fromCall(sql, from)} and ${beforeCall(sql, sql`(select call from place)`)}`)}) before
    union all
    select charge_micro from usage u
    where ${callsOf(sql, accountId)} and ${fromCall(sql, sql`(select call from place)`)}
      and ${beforeCall(sql, sql`(select first_call(hour) from place)`)} and opened_at < (select hour from place)
    union all
    select charge_micro from (${sumsOfHours(sql, {
      accountId,
      zone: 0,
      withMonths: true,
      first: sql`(select hour from place)`,
      last: sql`date_trunc('hour', now(), 'UTC') + interval '1 day'`,
      only: {},
      grouping: "all",
    })}) hours
  ) newer)`
