-- Records are partitioned by the month that their request id tells (0075_months_of_usage.sql). The table that there is becomes the
-- partition of all before a bound, two whole months ahead, so that calls go on meanwhile. That all its rows are before it is said here, and
-- looked at in the next migration.

-- What all request ids from a time on begin with: `firstRequestId` in src/http/request-id.ts.
create function first_call(since timestamptz) returns text language sql stable as $$
  select 'req_' || string_agg(substr('0123456789abcdefghijklmnopqrstuvwxyz', ((extract(epoch from since) * 1000)::bigint
    / power(36, n)::bigint % 36)::integer + 1, 1), '' order by n desc) from generate_series(0, 8) n
$$;

-- Ids of a clock that was ahead are before the bound too. By the index, whatever a session prefers.
select set_config('enable_indexonlyscan', 'on', true), set_config('enable_indexscan', 'on', true);
select set_config('loket.bound', greatest(
  first_call((date_trunc('month', now() at time zone 'UTC') + interval '3 months') at time zone 'UTC'),
  coalesce((select request_id from usage order by request_id desc limit 1) || '0', '')
), true);
do $$
begin
  execute format('alter table usage add constraint usage_bound check (request_id < %L) not valid', current_setting('loket.bound'));
end $$;
