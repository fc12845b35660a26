-- Sums of final usage records by the hour (UTC), so that a month of them is read at once. Kept by triggers, in the transaction
-- that writes a record, whoever writes it: the two cannot disagree.
create table usage_hours (
  account_id text not null,
  hour timestamptz not null,
  model text not null,
  key_id text not null,
  endpoint text not null,
  status text not null,
  calls bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cache_read_tokens bigint not null,
  cache_write_tokens bigint not null,
  charge_micro bigint not null,
  -- Of the calls, those that read from a cache.
  cache_reads bigint not null,
  primary key (account_id, hour, model, key_id, endpoint, status)
) with (fillfactor = 70); -- Room for the new version of a row beside the old one, since the current hour's change with each batch.

-- One statement for a batch's records. In one order, so that two batches cannot deadlock.
create function add_usage_hours() returns trigger language plpgsql as $$
begin
  insert into usage_hours as h (account_id, hour, model, key_id, endpoint, status, calls, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, cache_reads)
  select account_id, date_trunc('hour', opened_at, 'UTC'), model, key_id, endpoint, status, count(*),
    sum(input_tokens)::bigint, sum(output_tokens)::bigint, sum(cache_read_tokens)::bigint,
    sum(cache_write_tokens)::bigint, sum(charge_micro)::bigint, count(*) filter (where cache_read_tokens > 0)
  from added where part = 0 group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6
  on conflict (account_id, hour, model, key_id, endpoint, status) do update set
    calls = h.calls + excluded.calls,
    input_tokens = h.input_tokens + excluded.input_tokens,
    output_tokens = h.output_tokens + excluded.output_tokens,
    cache_read_tokens = h.cache_read_tokens + excluded.cache_read_tokens,
    cache_write_tokens = h.cache_write_tokens + excluded.cache_write_tokens,
    charge_micro = h.charge_micro + excluded.charge_micro,
    cache_reads = h.cache_reads + excluded.cache_reads;
  return null;
end $$;

-- A record that is changed (a charge that is taken back) or removed; rare, and so row by row.
create function correct_usage_hours() returns trigger language plpgsql as $$
begin
  update usage_hours set calls = calls - 1, input_tokens = input_tokens - old.input_tokens,
    output_tokens = output_tokens - old.output_tokens, cache_read_tokens = cache_read_tokens - old.cache_read_tokens,
    cache_write_tokens = cache_write_tokens - old.cache_write_tokens, charge_micro = charge_micro - old.charge_micro,
    cache_reads = cache_reads - (old.cache_read_tokens > 0)::integer
  where account_id = old.account_id and hour = date_trunc('hour', old.opened_at, 'UTC') and model = old.model
    and key_id = old.key_id and endpoint = old.endpoint and status = old.status;
  if tg_op = 'UPDATE' then
    insert into usage_hours as h (account_id, hour, model, key_id, endpoint, status, calls, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, cache_reads)
    values (new.account_id, date_trunc('hour', new.opened_at, 'UTC'), new.model, new.key_id, new.endpoint, new.status, 1,
      new.input_tokens, new.output_tokens, new.cache_read_tokens, new.cache_write_tokens, new.charge_micro,
      (new.cache_read_tokens > 0)::integer)
    on conflict (account_id, hour, model, key_id, endpoint, status) do update set
      calls = h.calls + excluded.calls,
      input_tokens = h.input_tokens + excluded.input_tokens,
      output_tokens = h.output_tokens + excluded.output_tokens,
      cache_read_tokens = h.cache_read_tokens + excluded.cache_read_tokens,
      cache_write_tokens = h.cache_write_tokens + excluded.cache_write_tokens,
      charge_micro = h.charge_micro + excluded.charge_micro,
      cache_reads = h.cache_reads + excluded.cache_reads;
  end if;
  return null;
end $$;

-- Calls go on while the sums are made, which takes half a minute a million records. Whoever writes a record from here on has a
-- transaction that is no older than this.
select set_config('loket.oldest_unseen', pg_snapshot_xmin(pg_current_snapshot())::text, true);
create view pg_temp.sums (account_id, hour, model, key_id, endpoint, status, calls, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, cache_reads) as
  select u.account_id, date_trunc('hour', u.opened_at, 'UTC'), u.model, u.key_id, u.endpoint, u.status, count(*),
    sum(u.input_tokens)::bigint, sum(u.output_tokens)::bigint, sum(u.cache_read_tokens)::bigint,
    sum(u.cache_write_tokens)::bigint, sum(u.charge_micro)::bigint, count(*) filter (where u.cache_read_tokens > 0)
  from usage u where u.part = 0 group by 1, 2, 3, 4, 5, 6;
insert into usage_hours (account_id, hour, model, key_id, endpoint, status, calls, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, cache_reads) select * from pg_temp.sums;

-- Nobody writes a record from here to the end, which is two readings of the table.
lock table usage in share row exclusive mode;
create trigger usage_added after insert on usage referencing new table as added
  for each statement execute function add_usage_hours();
create trigger usage_changed after update on usage
  for each row when (old.part = 0) execute function correct_usage_hours();
create trigger usage_removed after delete on usage
  for each row when (old.part = 0) execute function correct_usage_hours();

-- The hours in which a record was added or changed meanwhile are summed again. Nothing removes records; if somebody did by hand,
-- the number of calls is another, and all is summed again.
do $$
begin
  create temporary table late on commit drop as
    select distinct account_id, date_trunc('hour', opened_at, 'UTC') as hour from usage
    where part = 0 and age(xmin) <= age(current_setting('loket.oldest_unseen')::xid8::xid);
  delete from usage_hours h using late l where h.account_id = l.account_id and h.hour = l.hour;
  insert into usage_hours (account_id, hour, model, key_id, endpoint, status, calls, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, cache_reads)
  select u.account_id, date_trunc('hour', u.opened_at, 'UTC'), u.model, u.key_id, u.endpoint, u.status, count(*),
    sum(u.input_tokens)::bigint, sum(u.output_tokens)::bigint, sum(u.cache_read_tokens)::bigint,
    sum(u.cache_write_tokens)::bigint, sum(u.charge_micro)::bigint, count(*) filter (where u.cache_read_tokens > 0)
  from usage u join late l on l.account_id = u.account_id and l.hour = date_trunc('hour', u.opened_at, 'UTC') where u.part = 0 group by 1, 2, 3, 4, 5, 6;
  if (select coalesce(sum(calls), 0) from usage_hours) <> (select count(*) from usage where part = 0) then
    delete from usage_hours;
    insert into usage_hours (account_id, hour, model, key_id, endpoint, status, calls, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, cache_reads) select * from pg_temp.sums;
  end if;
end $$;
drop view pg_temp.sums;
