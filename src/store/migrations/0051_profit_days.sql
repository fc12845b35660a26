-- The sums of profit by parts of a day, so that three months of them are read at once however many hours there are. A part begins
-- at 0, 15, 16 or 17 o'clock UTC: days of UTC and of all Indonesian zones are whole parts. A part is summed when it is over, by a
-- chore and not by what books a call, and again when a record of it comes late.
create table profit_days (
  since timestamptz not null,
  account_id text not null,
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
  primary key (since, account_id, model, member, kind)
) with (fillfactor = 70);

-- When the part of the day begins that an hour is in.
create function profit_part(hour timestamptz) returns timestamptz immutable language sql as $$
  select (date_trunc('day', hour at time zone 'UTC') + make_interval(hours => case
    when extract(hour from hour at time zone 'UTC') < 15 then 0
    when extract(hour from hour at time zone 'UTC') < 17 then extract(hour from hour at time zone 'UTC')::integer
    else 17 end)) at time zone 'UTC'
$$;

create function profit_part_end(since timestamptz) returns timestamptz immutable language sql as $$
  select since + make_interval(hours => case extract(hour from since at time zone 'UTC') when 0 then 15 when 17 then 7 else 1 end)
$$;

-- The parts whose sums stand in profit_days.
create table profit_parts (since timestamptz primary key);
-- Parts of which something was booked, or taken back, after they were over: a row for each batch of it. Their sums do not stand.
create table profit_late (since timestamptz not null);

-- Whoever books later than this after a part's end says so; a part is summed an hour later, when all who began before have ended.
create function profit_is_late(opened_at timestamptz) returns boolean stable language sql as $$
  select profit_part_end(profit_part(opened_at)) < now() - interval '1 hour'
$$;

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
  end if;
  return null;
end $$;

create function mark_profit_late() returns trigger language plpgsql as $$
begin
  insert into profit_late select profit_part(old.opened_at) where profit_is_late(old.opened_at);
  return null;
end $$;
create trigger usage_profit_late after update or delete on usage for each row execute function mark_profit_late();

-- Sums the next part that ended before a time, a late one first, and says which it was; null where none is due, or another process is at it. Marks
-- are taken away before the hours are read, each by a statement of its own: what is marked meanwhile is summed again.
create function sum_profit_part_1(over_since timestamptz) returns timestamptz language plpgsql as $$
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
  insert into profit_parts values (part) on conflict do nothing;
  return part;
end $$;
