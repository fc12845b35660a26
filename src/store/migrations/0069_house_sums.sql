-- Sums that the house's own questions read, without the accounts, which are many.

-- Those of profit by parts of days (0051_profit_days.sql), of all accounts together. Made with them, and stand when they do.
create table profit_house (
  since timestamptz not null,
  model text not null,
  member text not null,
  kind text not null,
  records bigint not null,
  input_tokens numeric not null,
  output_tokens numeric not null,
  cache_read_tokens numeric not null,
  cache_write_tokens numeric not null,
  charge_micro numeric not null,
  absorbed_micro numeric not null,
  cost_micro numeric not null,
  estimated_micro numeric not null,
  unknown bigint not null,
  under bigint not null,
  under_micro numeric not null,
  primary key (since, model, member, kind)
);
-- Nobody sums a part meanwhile, and nobody waits for it.
select pg_advisory_xact_lock(hashtextextended('loket:profit_days', 0));
insert into profit_house
  select since, model, member, kind, sum(records), sum(input_tokens), sum(output_tokens), sum(cache_read_tokens),
    sum(cache_write_tokens), sum(charge_micro), sum(absorbed_micro), sum(cost_micro), sum(estimated_micro), sum(unknown), sum(under),
    sum(under_micro)
  from profit_days group by 1, 2, 3, 4;

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

-- Final records by the hour (UTC), status and error. An hour is summed by a chore when it is over, and again when a record of it comes
-- late or is changed.
create table call_hours (
  hour timestamptz not null,
  status text not null,
  -- Empty for none.
  error_code text not null,
  calls bigint not null,
  charge_micro numeric not null,
  absorbed_micro numeric not null,
  primary key (hour, status, error_code)
);
-- The hours whose sums stand in call_hours.
create table call_summed (hour timestamptz primary key);
-- Hours of which something was booked, or changed, after they were over: a row for each batch of it. Their sums do not stand.
create table call_late (hour timestamptz not null);

-- Whoever books later than this after an hour's end says so; an hour is summed an hour later, when all who began before have ended.
create function call_is_late(opened_at timestamptz) returns boolean stable language sql as $$
  select date_trunc('hour', opened_at, 'UTC') < now() - interval '2 hours'
$$;

-- Sums an hour whose calls have ids from the first to before the second. False where another process is at it. Marks are taken away before
-- records are read, each by a statement of its own: what is marked meanwhile is summed again.
create function sum_call_hour_1(of_hour timestamptz, first_id text, end_id text) returns boolean language plpgsql as $$
begin
  if not pg_try_advisory_xact_lock(hashtextextended('loket:call_hours', 0)) then
    return false;
  end if;
  delete from call_late where hour = of_hour;
  delete from call_hours where hour = of_hour;
  insert into call_hours
  select of_hour, status, coalesce(error_code, ''), count(*), sum(charge_micro), sum(absorbed_micro)
  from usage
  where request_id >= first_id and request_id < end_id and part = 0 and opened_at >= of_hour and opened_at < of_hour + interval '1 hour'
  group by 2, 3;
  insert into call_summed values (of_hour) on conflict do nothing;
  return true;
end $$;

create or replace function add_profit_hours() returns trigger language plpgsql as $$
begin
  insert into profit_hours as p (hour, account_id, model, member, kind, records, input_tokens, output_tokens,
    cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, cost_micro,
    estimated_micro, unknown, under, under_micro)
  select date_trunc('hour', opened_at, 'UTC'), account_id, model, member, profit_kind(part, status), count(*),
    sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cache_write_tokens), sum(charge_micro),
    sum(absorbed_micro), coalesce(sum(cost_micro), 0),
    sum(profit_estimated(status, input_tokens + output_tokens + cache_read_tokens + cache_write_tokens, cost_micro)),
    count(*) - count(cost_micro),
    count(*) filter (where profit_under(part, status, charge_micro + absorbed_micro, cost_micro) > 0),
    sum(profit_under(part, status, charge_micro + absorbed_micro, cost_micro))
  from added where member is not null group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5
  on conflict (hour, account_id, model, member, kind) do update set
    records = p.records + excluded.records,
    input_tokens = p.input_tokens + excluded.input_tokens,
    output_tokens = p.output_tokens + excluded.output_tokens,
    cache_read_tokens = p.cache_read_tokens + excluded.cache_read_tokens,
    cache_write_tokens = p.cache_write_tokens + excluded.cache_write_tokens,
    charge_micro = p.charge_micro + excluded.charge_micro,
    absorbed_micro = p.absorbed_micro + excluded.absorbed_micro,
    cost_micro = p.cost_micro + excluded.cost_micro,
    estimated_micro = p.estimated_micro + excluded.estimated_micro,
    unknown = p.unknown + excluded.unknown,
    under = p.under + excluded.under,
    under_micro = p.under_micro + excluded.under_micro;
  -- Almost never, and so asked first whether there is any that could be.
  if exists (select from added where opened_at < now() - interval '1 hour') then
    insert into profit_late
    select distinct profit_part(opened_at) from added where member is not null and profit_is_late(opened_at);
    insert into call_late select distinct date_trunc('hour', opened_at, 'UTC') from added where part = 0 and call_is_late(opened_at);
  end if;
  return null;
end $$;

create or replace function mark_profit_late() returns trigger language plpgsql as $$
begin
  insert into profit_late select profit_part(old.opened_at) where profit_is_late(old.opened_at);
  insert into call_late select date_trunc('hour', old.opened_at, 'UTC') where old.part = 0 and call_is_late(old.opened_at);
  return null;
end $$;
