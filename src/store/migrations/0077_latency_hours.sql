-- Times to the first token of final records by the hour (UTC), so that the percentiles of months are read at once. A row has how many calls
-- fall into each step; a step is 2^(1/16) times the one before it, and so percentiles are told within 2.2 %. An hour is summed with
-- call_hours (0069_house_sums.sql), by the same chore, and nothing is written when a call is booked.
create table latency_hours (
  account_id text not null,
  hour timestamptz not null,
  model text not null,
  key_id text not null,
  endpoint text not null,
  status text not null,
  -- In their order, each once.
  steps smallint[] not null,
  -- Of each step.
  calls bigint[] not null,
  primary key (account_id, hour, model, key_id, endpoint, status)
);
-- By which an hour is summed again.
create index latency_hours_hour on latency_hours (hour);
-- The hours whose sums stand in latency_hours, unless they are in call_late.
create table latency_summed (hour timestamptz primary key);

create function latency_step(ms integer) returns smallint immutable language sql as $$
  select floor(16 * ln(greatest(ms, 1)::float8) / ln(2::float8))::smallint
$$;
-- The middle of a step, in milliseconds.
create function latency_of_step(step smallint) returns integer immutable language sql as $$
  select round(power(2::float8, (step + 0.5::float8) / 16))::integer
$$;

-- As in 0069_house_sums.sql, and with the times to the first token.
create or replace function sum_call_hour_1(of_hour timestamptz, first_id text, end_id text) returns boolean language plpgsql as $$
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
  delete from latency_hours where hour = of_hour;
  insert into latency_hours
  select account_id, of_hour, model, key_id, endpoint, status, array_agg(step order by step), array_agg(calls order by step)
  from (
    select account_id, model, key_id, endpoint, status, latency_step(first_token_ms) as step, count(*) as calls
    from usage
    where request_id >= first_id and request_id < end_id and part = 0 and opened_at >= of_hour and opened_at < of_hour + interval '1 hour'
      and first_token_ms is not null
    group by 1, 2, 3, 4, 5, 6
  ) steps
  group by 1, 3, 4, 5, 6;
  insert into latency_summed values (of_hour) on conflict do nothing;
  return true;
end $$;
