/** That sums which triggers keep are those of the records. No money, so that a difference is about no account and freezes none. */
import { type Claim, ARCHIVED_AT, type New, type Replaced } from "./claim.ts"

/** Whose sums are held against which, as SQL that can follow `from`. */
interface Compared {
  readonly records: string
  readonly sums: string
}

const columns = (names: string): readonly string[] => names.split(" ")
const TOKENS = "input_tokens output_tokens cache_read_tokens cache_write_tokens"
const USAGE_SUMS = columns(`calls ${TOKENS} charge_micro cache_reads`)
const OF_PROFIT = "absorbed_micro cost_micro estimated_micro unknown under under_micro"
const PROFIT_SUMS = columns(`records ${TOKENS} charge_micro ${OF_PROFIT}`)
const ACCOUNT_SUMS = columns(`calls records charge_micro ${OF_PROFIT}`)

const summed = (of: readonly string[]): string => of.map((column) => `sum(${column}) as ${column}`).join(", ")
const OF_KINDS = `coalesce(sum(records) filter (where profit_is_final(kind)), 0) as calls, ${summed(ACCOUNT_SUMS.slice(1))}`
/** Whether two rows of sums are not the same. */
const differ = (one: string, other: string, of: readonly string[]): string =>
  [one, other].map((table) => `(${of.map((column) => `${table}.${column}`).join(", ")})`).join(" is distinct from ")
/** What is kept beside what was found, as figures. */
const RECORDED = "k.charge_micro as kept_micro, s.charge_micro as recorded_micro"
const CALLS_RECORDED = `k.calls as kept_calls, s.calls as recorded_calls, ${RECORDED}`
const PROFIT_RECORDED = `k.records as kept_records, s.records as recorded_records, ${RECORDED},
        k.cost_micro as kept_cost_micro, s.cost_micro as recorded_cost_micro`

const A_MONTH_AGO = "now() - interval '30 days'"

const hoursOf = (of: Compared): string => `
      with summed as (
        select account_id, date_trunc('hour', opened_at, 'UTC') as hour, model, key_id, endpoint, status, count(*) as calls,
          ${summed(columns(`${TOKENS} charge_micro`))}, count(*) filter (where cache_read_tokens > 0) as cache_reads
        from ${of.records} u where part = 0 group by 1, 2, 3, 4, 5, 6
      ), kept as (
        select * from ${of.sums} h
        where (${USAGE_SUMS.join(", ")}) <> (${USAGE_SUMS.map(() => 0).join(", ")})
      )
      select null::text as account_id, account_id as sums_of, hour, model, key_id, endpoint, status,
        ${CALLS_RECORDED}
      from summed s full join kept k using (account_id, hour, model, key_id, endpoint, status)
      where ${differ("s", "k", USAGE_SUMS)}`

const profitOf = (of: Compared): string => `
      with summed as (
        select date_trunc('hour', opened_at, 'UTC') as hour, account_id, model, member, profit_kind(part, status) as kind,
          count(*) as records, ${summed(columns(`${TOKENS} charge_micro absorbed_micro`))},
          coalesce(sum(cost_micro), 0) as cost_micro,
          sum(profit_estimated(status, input_tokens + output_tokens + cache_read_tokens + cache_write_tokens, cost_micro))
            as estimated_micro,
          count(*) - count(cost_micro) as unknown,
          count(*) filter (where profit_under(part, status, charge_micro + absorbed_micro, cost_micro) > 0) as under,
          sum(profit_under(part, status, charge_micro + absorbed_micro, cost_micro)) as under_micro
        from ${of.records} u where member is not null group by 1, 2, 3, 4, 5
      ), kept as (
        select * from ${of.sums} h
        where (${PROFIT_SUMS.join(", ")}) <> (${PROFIT_SUMS.map(() => 0).join(", ")})
      )
      select null::text as account_id, account_id as sums_of, hour, model, member, kind, ${PROFIT_RECORDED}
      from summed s full join kept k using (hour, account_id, model, member, kind)
      where ${differ("s", "k", PROFIT_SUMS)}`

const daysOf = (of: Compared): string => `
      with summed as (
        select profit_part(hour) as since, account_id, model, member, kind,
          ${summed(PROFIT_SUMS)}
        from ${of.records} h group by 1, 2, 3, 4, 5
      )
      select null::text as account_id, account_id as sums_of, since, model, member, kind, ${PROFIT_RECORDED}
      from summed s full join ${of.sums} k using (since, account_id, model, member, kind)
      where since in (select since from profit_parts except select since from profit_late) and ${differ("s", "k", PROFIT_SUMS)}`

const houseOf = (of: Compared): string => `
      with summed as (
        select since, model, member, kind, ${summed(PROFIT_SUMS)}
        from ${of.records} d group by 1, 2, 3, 4
      )
      select null::text as account_id, since, model, member, kind, ${PROFIT_RECORDED}
      from summed s full join ${of.sums} k using (since, model, member, kind)
      where ${differ("s", "k", PROFIT_SUMS)}`

/** Of days whose sums stand. */
const accountsOf = (of: Compared): string => `
      with standing as materialized (
        select day from profit_account_summed s where stands and not exists (
          select from profit_late l where l.since >= span_begins(s.day, 0) and l.since < span_ends(s.day, false, 0))
      ), summed as (
        select account_id, (since at time zone 'UTC')::date as day, ${OF_KINDS}
        from ${of.records} d group by 1, 2
      )
      select null::text as account_id, account_id as sums_of, day, ${PROFIT_RECORDED}
      from summed s full join ${of.sums} k using (account_id, day)
      where day in (select day from standing) and ${differ("s", "k", ACCOUNT_SUMS)}`

/** Whether their days stand or not. */
const accountMonthsOf = (of: Compared): string => `
      with summed as (
        select account_id, date_trunc('month', day::timestamp)::date as month, ${summed(ACCOUNT_SUMS)}
        from ${of.records} d group by 1, 2
      )
      select null::text as account_id, account_id as sums_of, month, ${PROFIT_RECORDED}
      from summed s full join ${of.sums} k using (account_id, month)
      where ${differ("s", "k", ACCOUNT_SUMS)}`

/** Of days that are in them, whether they stand or not. */
const accountModelsOf = (of: Compared): string => `
      with summed as (
        select date_trunc('month', since at time zone 'UTC')::date as month, account_id, model, member, ${OF_KINDS}
        from ${of.records} d where (since at time zone 'UTC')::date in (select day from profit_account_summed where grouped) group by 1, 2, 3, 4
      )
      select null::text as account_id, account_id as sums_of, month, model, member, ${PROFIT_RECORDED}
      from summed s full join ${of.sums} k using (month, account_id, model, member)
      where ${differ("s", "k", ACCOUNT_SUMS)}`

const customersOf = (of: Compared): string => `
      with standing as materialized (
        select c.*, span_begins(day, zone) as begins, span_ends(day, false, zone) as ends from ${of.sums} c
      )
      select null::text as account_id, zone, day, s.accounts as kept_accounts, found.accounts as found_accounts
      from standing s cross join lateral (
        select count(*) as accounts from (
          select distinct account_id from ${of.records} d where since >= s.begins and since < s.ends and records > 0
        ) accounts offset 0
      ) found
      where s.accounts <> found.accounts
        and not exists (select from profit_late l where l.since >= s.begins and l.since < s.ends)`

/** Of the last thirty days, which is as far back as anybody asks; of who called last in a part that is to be summed again, nothing. */
const lastCallsOf = (of: Compared): string => `
      with summed as (
        select model, account_id, max(hour) as last_hour from ${of.records} h
        where hour >= ${A_MONTH_AGO} and kind = 'ok' and records > 0
          and profit_part(hour) in (select since from profit_parts except select since from profit_late) group by 1, 2
      ), kept as (
        select * from ${of.sums} c where last_hour >= ${A_MONTH_AGO}
      )
      select null::text as account_id, account_id as sums_of, model, k.last_hour as kept_hour, s.last_hour as recorded_hour
      from summed s full join kept k using (model, account_id)
      where s.last_hour is distinct from k.last_hour and (profit_part(k.last_hour) in (select since from profit_late)) is not true`

const endedOf = (of: Compared): string => `
      with standing as materialized (
        select hour from ${of.sums} h except select hour from call_late
      ), summed as (
        select date_trunc('hour', opened_at, 'UTC') as hour, status, coalesce(error_code, '') as error_code, count(*) as calls,
          sum(charge_micro) as charge_micro, sum(absorbed_micro) as absorbed_micro
        from ${of.records} u where part = 0 and date_trunc('hour', opened_at, 'UTC') in (select hour from standing) group by 1, 2, 3
      ), kept as (
        select * from call_hours where hour in (select hour from standing)
      )
      select null::text as account_id, hour, status, error_code, k.calls as kept_calls, s.calls as recorded_calls,
        k.charge_micro as kept_micro, s.charge_micro as recorded_micro
      from summed s full join kept k using (hour, status, error_code)
      where (s.calls, s.charge_micro, s.absorbed_micro) is distinct from (k.calls, k.charge_micro, k.absorbed_micro)`

/** `sums`: whose sums of which days and months, as rows of `usage_span_accounts`. */
const spansOf = (of: Compared): string => `
      with standing as materialized (
        select a.account_id, z.zone, a.is_month, a.since, span_begins(a.since, z.zone) as begins, span_ends(a.since, a.is_month, z.zone) as ends
        from ${of.sums} a cross join (values (0), (7), (8), (9)) z (zone)
        where not exists (
          select from call_late l where l.hour >= span_begins(a.since, z.zone) and l.hour < span_ends(a.since, a.is_month, z.zone))
      ), kept as (
        select s.* from standing t join usage_spans s using (account_id, zone, is_month, since)
      ), summed as (
        select t.account_id, t.zone, t.is_month, t.since, h.model, h.key_id, h.endpoint, h.status, ${summed(USAGE_SUMS)}
        from standing t join ${of.records} h on h.account_id = t.account_id and h.hour >= t.begins and h.hour < t.ends
        group by 1, 2, 3, 4, 5, 6, 7, 8
      )
      select null::text as account_id, account_id as sums_of, zone, is_month, since, model, key_id, endpoint, status,
        ${CALLS_RECORDED}
      from summed s full join kept k using (account_id, zone, is_month, since, model, key_id, endpoint, status)
      where ${differ("s", "k", USAGE_SUMS)}`

/** `sums`: as for `spansOf`; `records`: the sums by all things. */
const groupsOf = (of: Compared): string => `
      with kept as (
        select s.* from ${of.sums} a join usage_groups s using (account_id, is_month, since)
      ), summed as (
        select account_id, s.zone, is_month, since, g.grouped_by, g.name, coalesce(sum(calls) filter (where status = 'ok'), 0) as ok, ${summed(USAGE_SUMS)}
        from ${of.sums} a join ${of.records} s using (account_id, is_month, since) cross join lateral (
          values ('all', ''), ('model', s.model), ('key', s.key_id), ('format', s.endpoint), ('status', s.status)
        ) g (grouped_by, name)
        group by 1, 2, 3, 4, 5, 6
      )
      select null::text as account_id, account_id as sums_of, zone, is_month, since, grouped_by, name,
        k.calls as kept_calls, s.calls as summed_calls, k.charge_micro as kept_micro, s.charge_micro as summed_micro
      from summed s full join kept k using (account_id, zone, is_month, since, grouped_by, name)
      where ${differ("s", "k", ["ok", ...USAGE_SUMS])}`

/** From the first hour on in which no call was archived: a call may have begun an hour after its id was given. */
const WHOLE = `date_trunc('hour', ${ARCHIVED_AT} + interval '2 hours', 'UTC')`
const RECORDS = `(select * from usage where opened_at >= ${WHOLE})`
const keptOf = (sums: string): string => `(select * from ${sums} where hour >= ${WHOLE})`

const ofSums = (
  of: Claim["of"],
  name: string,
  contradictions: (of: Compared) => string,
  records: string,
  sums: string = of,
): Claim => ({ name, of, contradictions: contradictions({ records, sums }) })

/** Sums that a chore makes are compared where they are made, and where nothing has come later. */
export const claimsOfSums: readonly Claim[] = [
  ofSums("usage_hours", "the sums by the hour are those of the records", hoursOf, RECORDS, keptOf("usage_hours")),
  // Costs are no money of anybody's account. Records of before there were members are in no sum.
  ofSums("profit_hours", "the sums of profit are those of the records", profitOf, RECORDS, keptOf("profit_hours")),
  ofSums("profit_days", "the sums of profit by parts of days are those of the hours", daysOf, "profit_hours"),
  ofSums("profit_house", "the sums of profit of the house are those of its accounts", houseOf, "profit_days"),
  ofSums(
    "profit_account_days",
    "the sums of profit by accounts are those of the parts of days",
    accountsOf,
    "profit_days",
  ),
  ofSums(
    "profit_account_months",
    "the sums of profit by accounts and months are those of their days",
    accountMonthsOf,
    "profit_account_days",
  ),
  ofSums(
    "profit_account_models",
    "the sums of profit by accounts, models and months are those of the parts of days",
    accountModelsOf,
    "profit_days",
  ),
  ofSums("customer_days", "the sums of customers by days are those of the parts of days", customersOf, "profit_days"),
  ofSums("model_customers", "the sums of customers by models are those of the hours", lastCallsOf, "profit_hours"),
  ofSums("call_hours", "the sums of how calls ended are those of the records", endedOf, RECORDS, keptOf("call_summed")),
  ofSums(
    "usage_spans",
    "the sums by days and months are those of the hours",
    spansOf,
    "usage_hours",
    "usage_span_accounts",
  ),
  ofSums(
    "usage_groups",
    "the sums of each model, key, format and status by days and months are those of all",
    groupsOf,
    "usage_spans",
    "usage_span_accounts",
  ),
]

/** Of whole hours and days since a proof, and of the accounts that called in them. */
export function sumsSince({ call, hour }: New): Replaced {
  const records = `(select * from usage where request_id >= ${call} and opened_at >= ${hour})`
  const since = (table: string, time: string, first = hour) => `(select * from ${table} where ${time} >= ${first})`
  const day = `profit_part(${hour} - interval '2 days')`
  const ofCallers = `(select h.* from (select distinct account_id from ${records} r) a
    join usage_hours h on h.account_id = a.account_id and h.hour >= ${hour})`
  /** By the keys of accounts, because days of all of them have no index. */
  const ofAccounts = (table: string, time: string, first: string) => `(
    select k.* from (select distinct account_id from profit_days where since >= ${day}) a cross join lateral (
      select * from ${table} k where k.account_id = a.account_id and k.${time} >= ${first} offset 0
    ) k)`
  const first = (unit: "day" | "month") => `date_trunc('${unit}', ${day} at time zone 'UTC')::date`
  const [nextDay, firstMonth] = [`${first("day")} + 1`, first("month")]
  const partsSince = (date: string) => since("profit_days", "since", `((${date})::timestamp at time zone 'UTC')`)
  const ofMonths = `(
    select m.* from (select distinct account_id from profit_days where since >= ${day}) a
    cross join generate_series(${firstMonth}::timestamp, now() at time zone 'UTC', interval '1 month') s (month) cross join lateral (
      select * from profit_account_months m where m.month = s.month::date and m.account_id = a.account_id offset 0
    ) m)`
  /** By models that were called, because hours of all of them have no index. */
  const ofModels = `(
    select c.* from (select distinct model from profit_hours where hour >= ${day}) m cross join lateral (
      select * from model_customers c where c.model = m.model and c.last_hour >= ${day} offset 0
    ) c)`
  const spans = `(select * from usage_span_accounts where since >= (${hour} - interval '32 days')::date)`
  const of = (sums: string, contradictions: (of: Compared) => string, from = records) => ({
    compared: `${sums} s`,
    contradictions: contradictions({ records: from, sums }),
  })
  const replaced: Readonly<Partial<Record<Claim["of"], Replaced[string]>>> = {
    usage_hours: of(ofCallers, hoursOf),
    profit_hours: of(since("profit_hours", "hour"), profitOf),
    profit_days: of(since("profit_days", "since", day), daysOf, since("profit_hours", "hour", day)),
    profit_house: of(since("profit_house", "since", day), houseOf, since("profit_days", "since", day)),
    profit_account_days: of(ofAccounts("profit_account_days", "day", nextDay), accountsOf, partsSince(nextDay)),
    profit_account_months: of(ofMonths, accountMonthsOf, ofAccounts("profit_account_days", "day", firstMonth)),
    profit_account_models: of(
      since("profit_account_models", "month", firstMonth),
      accountModelsOf,
      partsSince(firstMonth),
    ),
    customer_days: of(since("customer_days", "day", `(${day} at time zone 'UTC')::date`), customersOf, "profit_days"),
    model_customers: of(ofModels, lastCallsOf, since("profit_hours", "hour", day)),
    call_hours: of(since("call_summed", "hour"), endedOf),
    usage_spans: of(spans, spansOf, "usage_hours"),
    usage_groups: of(spans, groupsOf, "usage_spans"),
  }
  return Object.fromEntries(
    claimsOfSums.flatMap(({ name, of: table }) => (replaced[table] ? [[name, replaced[table]]] : [])),
  )
}
