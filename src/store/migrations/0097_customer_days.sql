-- How many accounts called on a day, for days of UTC and of Indonesia's zones: counting them again takes a row of each account. Counted by a
-- chore when all parts of the day are summed in profit_days; does not stand while one of them is in profit_late.
create table customer_days (
  -- Hours by which its clocks are ahead of UTC.
  zone smallint not null,
  day date not null,
  accounts bigint not null,
  primary key (zone, day)
);

-- Counts the newest day that is summed and not counted, and says which it was; null where there is none, or another process sums.
create function count_customers_1() returns date language plpgsql as $$
declare
  next_zone smallint;
  next_day date;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('loket:profit_days', 0)) then
    return null;
  end if;
  -- Parts are summed in order, and one without calls is none.
  select z.zone, d.day::date into next_zone, next_day
  from (select min(since) as first, profit_part_end(max(since)) as until from profit_parts) p
  cross join (values (0), (7), (8), (9)) z (zone)
  cross join lateral generate_series(
    date_trunc('day', (p.first at time zone 'UTC') + make_interval(hours => z.zone)),
    date_trunc('day', (p.until at time zone 'UTC') + make_interval(hours => z.zone)) - interval '1 day', interval '1 day'
  ) d (day)
  where not exists (select from customer_days c where c.zone = z.zone and c.day = d.day::date)
  order by 2 desc, 1 limit 1;
  if next_day is not null then
    insert into customer_days
    select next_zone, next_day, count(*) from (
      select distinct account_id from profit_days
      where since >= span_begins(next_day, next_zone) and since < span_ends(next_day, false, next_zone) and records > 0
    ) accounts;
  end if;
  return next_day;
end $$;

-- As in 0069_house_sums.sql, and the days that the part is in are counted again.
create or replace function sum_profit_part_1(over_since timestamptz) returns timestamptz language plpgsql as $$
declare
  part timestamptz;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('loket:profit_days', 0)) then
    return null;
  end if;
  part := (select min(since) from profit_late where profit_part_end(since) < over_since);
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
