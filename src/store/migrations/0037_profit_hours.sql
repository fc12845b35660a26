-- Sums of what calls brought and cost, by the hour (UTC), so that the house's profit of a month is read at once. Kept by triggers,
-- in the transaction that writes a record. Of records that name the member that answered: those of before there were members have no
-- cost, and are in no sum. Sums are numeric, because what a backend counts without sense must not keep a batch from being booked.
create table profit_hours (
  hour timestamptz not null,
  account_id text not null,
  model text not null,
  member text not null,
  -- A final record's status; of other parts: a marker's, `search` for searches that nobody is charged, `retry` for a failed try.
  kind text not null,
  records bigint not null,
  input_tokens numeric not null,
  output_tokens numeric not null,
  cache_read_tokens numeric not null,
  cache_write_tokens numeric not null,
  charge_micro numeric not null,
  absorbed_micro numeric not null,
  -- Of what is known.
  cost_micro numeric not null,
  -- The part of it that was estimated, because the backend's counts could not be read.
  estimated_micro numeric not null,
  -- Of the records, those whose cost is not known.
  unknown bigint not null,
  -- Of the records, those whose price was under their cost, and by how much in all.
  under bigint not null,
  under_micro numeric not null,
  primary key (hour, account_id, model, member, kind)
) with (fillfactor = 70);

-- What of a record is summed, said once.
create function profit_kind(part integer, status text) returns text immutable language sql as $$
  select case when part = 0 or status like 'fallback\_%' then status when status = 'ok' then 'search' else 'retry' end
$$;
-- A backend that counted has its counts in the record.
create function profit_estimated(status text, tokens bigint, cost_micro bigint) returns bigint immutable language sql as $$
  select case when status <> 'ok' and tokens = 0 then coalesce(cost_micro, 0) else 0 end
$$;
-- The price of an answer is what was charged and what was absorbed of it.
create function profit_under(part integer, status text, price_micro bigint, cost_micro bigint) returns bigint immutable
language sql as $$
  select case when part = 0 and status = 'ok' and cost_micro > price_micro then cost_micro - price_micro else 0 end
$$;

-- One statement for a batch's records. In one order, so that two batches cannot deadlock.
create function add_profit_hours() returns trigger language plpgsql as $$
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
  return null;
end $$;

-- A record that is changed (a charge that is taken back) or removed; rare, and so row by row.
create function correct_profit_hours() returns trigger language plpgsql as $$
begin
  if old.member is not null then
    update profit_hours set records = records - 1, input_tokens = input_tokens - old.input_tokens,
      output_tokens = output_tokens - old.output_tokens, cache_read_tokens = cache_read_tokens - old.cache_read_tokens,
      cache_write_tokens = cache_write_tokens - old.cache_write_tokens, charge_micro = charge_micro - old.charge_micro,
      absorbed_micro = absorbed_micro - old.absorbed_micro, cost_micro = cost_micro - coalesce(old.cost_micro, 0),
      estimated_micro = estimated_micro - profit_estimated(old.status, old.input_tokens + old.output_tokens
        + old.cache_read_tokens + old.cache_write_tokens, old.cost_micro),
      unknown = unknown - (old.cost_micro is null)::integer,
      under = under - (profit_under(old.part, old.status, old.charge_micro + old.absorbed_micro, old.cost_micro) > 0)::integer,
      under_micro = under_micro - profit_under(old.part, old.status, old.charge_micro + old.absorbed_micro, old.cost_micro)
    where hour = date_trunc('hour', old.opened_at, 'UTC') and account_id = old.account_id and model = old.model
      and member = old.member and kind = profit_kind(old.part, old.status);
  end if;
  if tg_op = 'UPDATE' and new.member is not null then
    insert into profit_hours as p (hour, account_id, model, member, kind, records, input_tokens, output_tokens,
    cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, cost_micro,
      estimated_micro, unknown, under, under_micro)
    values (date_trunc('hour', new.opened_at, 'UTC'), new.account_id, new.model, new.member, profit_kind(new.part, new.status),
      1, new.input_tokens, new.output_tokens, new.cache_read_tokens, new.cache_write_tokens, new.charge_micro, new.absorbed_micro, coalesce(new.cost_micro, 0),
      profit_estimated(new.status, new.input_tokens + new.output_tokens + new.cache_read_tokens + new.cache_write_tokens,
        new.cost_micro),
      (new.cost_micro is null)::integer,
      (profit_under(new.part, new.status, new.charge_micro + new.absorbed_micro, new.cost_micro) > 0)::integer,
      profit_under(new.part, new.status, new.charge_micro + new.absorbed_micro, new.cost_micro))
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
  end if;
  return null;
end $$;

create trigger usage_profit_added after insert on usage referencing new table as added
  for each statement execute function add_profit_hours();
create trigger usage_profit_changed after update on usage
  for each row execute function correct_profit_hours();
create trigger usage_profit_removed after delete on usage
  for each row execute function correct_profit_hours();
