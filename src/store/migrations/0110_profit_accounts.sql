-- The sums of profit of each account by days and months (UTC), without models, members and kinds: whose calls cost the most in a time is found
-- by months in order, and no sums of other accounts are read for it. Made by a chore from the parts of days (profit_days), never when a call is booked.
create table profit_account_days (
  account_id text not null,
  day date not null,
  -- Final records, and all.
  calls bigint not null,
  records bigint not null,
  charge_micro numeric not null,
  absorbed_micro numeric not null,
  cost_micro numeric not null,
  estimated_micro numeric not null,
  unknown bigint not null,
  under bigint not null,
  under_micro numeric not null,
  primary key (account_id, day)
) with (fillfactor = 90);

-- Of all days of a month that are in profit_account_days, so that a month that is not over has its sums too.
create table profit_account_months (
  month date not null,
  account_id text not null,
  calls bigint not null,
  records bigint not null,
  charge_micro numeric not null,
  absorbed_micro numeric not null,
  cost_micro numeric not null,
  estimated_micro numeric not null,
  unknown bigint not null,
  under bigint not null,
  under_micro numeric not null,
  primary key (month, account_id)
) with (fillfactor = 70);
create index profit_account_months_costliest on profit_account_months (month, cost_micro desc, account_id);

-- The days that are in profit_account_days. Those of a day do not stand while one of its parts is in profit_late, or after it was summed again.
create table profit_account_summed (
  day date primary key,
  stands boolean not null
);

-- A call has one final record; its other parts are markers, searches and tries.
create function profit_is_final(kind text) returns boolean immutable language sql as $$
  select kind not in ('retry', 'search') and kind not like 'fallback\_%'
$$;

-- Sums the next day of which all parts are summed, one whose sums do not stand first, then the newest, and says which it was; null where there is none, or
-- another process sums. What differs from what was there is added to the month.
create function sum_profit_accounts_1() returns date language plpgsql as $$
declare
  next_day date;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('loket:profit_days', 0)) then
    return null;
  end if;
  next_day := (select max(day) from profit_account_summed where not stands);
  if next_day is null then
    -- A part without hours is none.
    next_day := (
      select max(d.day)::date
      from (select min(since) as first, profit_part_end(max(since)) as until from profit_parts) p
      cross join lateral generate_series(
        date_trunc('day', p.first at time zone 'UTC'), date_trunc('day', p.until at time zone 'UTC') - interval '1 day', interval '1 day'
      ) d (day)
      where not exists (select from profit_account_summed s where s.day = d.day::date)
        and not exists (
          select from (values (0), (15), (16), (17)) h (hour), lateral (select (d.day + make_interval(hours => h.hour)) at time zone 'UTC' as since) each_part
          where not exists (select from profit_parts s where s.since = each_part.since)
            and exists (select from profit_hours p where p.hour >= each_part.since and p.hour < profit_part_end(each_part.since))
        )
    );
  end if;
  if next_day is null then
    return null;
  end if;
  -- Nothing removes parts, so no account is left over.
  with fresh as materialized (
    select account_id, coalesce(sum(records) filter (where profit_is_final(kind)), 0)::bigint as calls, sum(records)::bigint as records,
      sum(charge_micro) as charge_micro, sum(absorbed_micro) as absorbed_micro, sum(cost_micro) as cost_micro, sum(estimated_micro) as estimated_micro,
      sum(unknown)::bigint as unknown, sum(under)::bigint as under, sum(under_micro) as under_micro
    from profit_days where since >= span_begins(next_day, 0) and since < span_ends(next_day, false, 0) group by 1
  ), changed as materialized (
    select f.*, f.calls - coalesce(d.calls, 0) as more_calls, f.records - coalesce(d.records, 0) as more_records,
      f.charge_micro - coalesce(d.charge_micro, 0) as more_charge, f.absorbed_micro - coalesce(d.absorbed_micro, 0) as more_absorbed,
      f.cost_micro - coalesce(d.cost_micro, 0) as more_cost, f.estimated_micro - coalesce(d.estimated_micro, 0) as more_estimated,
      f.unknown - coalesce(d.unknown, 0) as more_unknown, f.under - coalesce(d.under, 0) as more_under, f.under_micro - coalesce(d.under_micro, 0) as more_under_micro
    -- Each by its key, however many days there are.
    from fresh f left join lateral (
      select * from profit_account_days k where k.account_id = f.account_id and k.day = next_day offset 0
    ) d on true
    where (f.calls, f.records, f.charge_micro, f.absorbed_micro, f.cost_micro, f.estimated_micro, f.unknown, f.under, f.under_micro)
      is distinct from (d.calls, d.records, d.charge_micro, d.absorbed_micro, d.cost_micro, d.estimated_micro, d.unknown, d.under, d.under_micro)
  ), monthly as (
    insert into profit_account_months as m
    select date_trunc('month', next_day::timestamp)::date, account_id, more_calls, more_records, more_charge, more_absorbed, more_cost, more_estimated,
      more_unknown, more_under, more_under_micro
    from changed order by account_id
    on conflict (month, account_id) do update set
      calls = m.calls + excluded.calls, records = m.records + excluded.records, charge_micro = m.charge_micro + excluded.charge_micro,
      absorbed_micro = m.absorbed_micro + excluded.absorbed_micro, cost_micro = m.cost_micro + excluded.cost_micro,
      estimated_micro = m.estimated_micro + excluded.estimated_micro, unknown = m.unknown + excluded.unknown, under = m.under + excluded.under,
      under_micro = m.under_micro + excluded.under_micro
  )
  insert into profit_account_days
  select account_id, next_day, calls, records, charge_micro, absorbed_micro, cost_micro, estimated_micro, unknown, under, under_micro
  from changed order by account_id
  on conflict (account_id, day) do update set
    calls = excluded.calls, records = excluded.records, charge_micro = excluded.charge_micro, absorbed_micro = excluded.absorbed_micro,
    cost_micro = excluded.cost_micro, estimated_micro = excluded.estimated_micro, unknown = excluded.unknown, under = excluded.under,
    under_micro = excluded.under_micro;
  insert into profit_account_summed values (next_day, true) on conflict (day) do update set stands = true;
  return next_day;
end $$;

-- A time of whole hours as what is summed of accounts, from the first hour on and before the last:
--   month: a month of which days are taken, with sign 1 where its sums are, and 0 where its days are;
--   days: from a day on and before another; with sign -1 those that are in the sums of a month and not in the time, or do not stand;
--   part, hour: what is in no day that is taken. `within`: its day stands, and is in the sums of a month of these.
create function profit_account_pieces_1(first timestamptz, last timestamptz)
returns table (kind text, at timestamptz, within boolean, first_day date, until_day date, sign integer) stable language sql as $$
  with listed as materialized (
    select s.day, date_trunc('month', s.day::timestamp)::date as month, span_begins(s.day, 0) >= first and span_ends(s.day, false, 0) <= last as inside,
      s.stands and not exists (select from profit_late l where l.since >= span_begins(s.day, 0) and l.since < span_ends(s.day, false, 0)) as standing
    from profit_account_summed s
    where s.day >= date_trunc('month', first at time zone 'UTC')::date
      and s.day < (date_trunc('month', last at time zone 'UTC') + interval '1 month')::date
  ), months as materialized (
    select month, (count(*) filter (where inside and standing) * 2 > count(*))::integer as sign
    from listed group by 1 having bool_or(inside and standing)
  ), days as materialized (
    select l.day, l.standing, l.inside and l.standing as taken, m.sign from listed l join months m using (month)
  ), each_day as (
    select day, case when sign = 0 then 1 else -1 end as sign from days where taken = (sign = 0)
  ), hours as materialized (
    select h.hour, profit_part(h.hour) as part, (h.hour at time zone 'UTC')::date in (select day from days where standing) as within
    from generate_series(first, last - interval '1 hour', interval '1 hour') h (hour)
    where (h.hour at time zone 'UTC')::date not in (select day from days where taken)
  ), parts as materialized (
    select part, within from (select distinct part, within from hours where part >= first and profit_part_end(part) <= last) p
    where exists (select from profit_parts s where s.since = part) and not exists (select from profit_late l where l.since = part)
  )
  select 'month', null::timestamptz, null::boolean, month, null::date, sign from months
  union all
  select 'days', null, null, min(day), max(day) + 1, sign
  from (select day, sign, day - row_number() over (partition by sign order by day)::integer as run from each_day) runs group by run, sign
  union all select 'part', part, within, null, null, 1 from parts
  union all select 'hour', hour, within, null, null, 1 from hours where part not in (select part from parts)
$$;

-- As in 0097_customer_days.sql, and the sums of accounts of the day that the part is in do not stand. A late part is not summed before its turn: what
-- is before it would be left out.
create or replace function sum_profit_part_1(over_since timestamptz) returns timestamptz language plpgsql as $$
declare
  part timestamptz;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('loket:profit_days', 0)) then
    return null;
  end if;
  part := (
    select min(since) from profit_late
    where profit_part_end(since) < over_since and since <= (select max(p.since) from profit_parts p)
  );
  if part is null then
    part := (
      select profit_part(min(hour)) from profit_hours
      where hour >= coalesce((select profit_part_end(max(since)) from profit_parts), '-infinity') and hour < over_since
    );
  end if;
  if part is null or profit_part_end(part) >= over_since then
    return null;
  end if;
  delete from profit_late where since = part;
  delete from customer_days where day = ((part at time zone 'UTC') + make_interval(hours => zone))::date;
  update profit_account_summed set stands = false where day = (part at time zone 'UTC')::date;
  -- Nothing removes hours, so none of these is left over.
  insert into profit_days as d
  select part, account_id, model, member, kind, sum(records), sum(input_tokens), sum(output_tokens), sum(cache_read_tokens),
    sum(cache_write_tokens), sum(charge_micro), sum(absorbed_micro), sum(cost_micro), sum(estimated_micro), sum(unknown), sum(under),
    sum(under_micro)
  from profit_hours where hour >= part and hour < profit_part_end(part) group by 2, 3, 4, 5
  on conflict (since, account_id, model, member, kind) do update set
    records = excluded.records, input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
    cache_read_tokens = excluded.cache_read_tokens, cache_write_tokens = excluded.cache_write_tokens,
    charge_micro = excluded.charge_micro, absorbed_micro = excluded.absorbed_micro, cost_micro = excluded.cost_micro,
    estimated_micro = excluded.estimated_micro, unknown = excluded.unknown, under = excluded.under,
    under_micro = excluded.under_micro;
  insert into profit_house
  select part, model, member, kind, sum(records), sum(input_tokens), sum(output_tokens), sum(cache_read_tokens),
    sum(cache_write_tokens), sum(charge_micro), sum(absorbed_micro), sum(cost_micro), sum(estimated_micro), sum(unknown), sum(under),
    sum(under_micro)
  from profit_days where since = part group by 2, 3, 4
  on conflict (since, model, member, kind) do update set
    records = excluded.records, input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
    cache_read_tokens = excluded.cache_read_tokens, cache_write_tokens = excluded.cache_write_tokens,
    charge_micro = excluded.charge_micro, absorbed_micro = excluded.absorbed_micro, cost_micro = excluded.cost_micro,
    estimated_micro = excluded.estimated_micro, unknown = excluded.unknown, under = excluded.under,
    under_micro = excluded.under_micro;
  insert into profit_parts values (part) on conflict do nothing;
  return part;
end $$;
