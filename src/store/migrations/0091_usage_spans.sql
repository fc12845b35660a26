-- Sums of usage_hours by whole days and months, of accounts and days with many calls: an account that calls seldom has as many hours as
-- calls, and they are few. A day is that of UTC and of Indonesia's zones, each for itself. Summed by a chore when a day is over, never
-- when a call is booked; what is not summed is read from usage_hours.
create table usage_spans (
  account_id text not null,
  -- Hours by which its clocks are ahead of UTC.
  zone smallint not null,
  is_month boolean not null,
  -- The first day.
  since date not null,
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
  cache_reads bigint not null,
  primary key (account_id, zone, is_month, since, model, key_id, endpoint, status)
);
-- Of whom sums of a day or month stand in usage_spans, of all zones; they do not while one of its hours is in call_late.
create table usage_span_accounts (
  account_id text not null,
  is_month boolean not null,
  since date not null,
  primary key (account_id, is_month, since)
);
create index usage_span_accounts_since on usage_span_accounts (is_month, since);
-- The days and months that were gone through.
create table usage_spans_summed (
  is_month boolean not null,
  since date not null,
  primary key (is_month, since)
);

-- When a day or month begins in a zone, and when it ends.
create function span_begins(since date, zone integer) returns timestamptz immutable language sql as $$
  select (since::timestamp - make_interval(hours => zone)) at time zone 'UTC'
$$;
create function span_ends(since date, is_month boolean, zone integer) returns timestamptz immutable language sql as $$
  select (since::timestamp + case when is_month then interval '1 month' else interval '1 day' end - make_interval(hours => zone)) at time zone 'UTC'
$$;

-- A time as the days and months whose sums stand, with `day`, and the hours between them, without; from the first hour on, and before the last.
create function usage_pieces_1(account text, of_zone integer, first timestamptz, last timestamptz, with_months boolean)
returns table (since timestamptz, until timestamptz, is_month boolean, day date) stable language sql as $$
  with spans as materialized (
    select span_begins(s.since, of_zone) as begins, span_ends(s.since, s.is_month, of_zone) as ends, s.is_month, s.since
    from usage_span_accounts s
    where s.account_id = account and (with_months or not s.is_month)
      and s.since >= greatest(first, timestamptz '1970-01-01')::date - 1 and s.since <= least(last, timestamptz '9999-01-01')::date + 1
      and span_begins(s.since, of_zone) >= first and span_ends(s.since, s.is_month, of_zone) <= last
      and not exists (
        select from call_late l where l.hour >= span_begins(s.since, of_zone) and l.hour < span_ends(s.since, s.is_month, of_zone))
  ), standing as (
    select * from spans where is_month
      or date_trunc('month', spans.since)::date not in (select m.since from spans m where m.is_month)
  ), gaps as (
    select lag(ends, 1, first) over (order by begins) as since, begins as until
    from (select begins, ends from standing union all select last, last) ends
  )
  select begins, ends, is_month, since from standing
  union all select since, until, null, null from gaps where since < until
$$;

-- Hours in which an account has calls as they are wanted, the newest first: as many as have so many of them, and the hour before, whose calls may
-- have ids that are later than theirs. Hours from `counted_before` on are not counted.
create function hours_with_calls_1(
  account text, of_model text, of_key text, of_endpoint text, of_status text,
  from_hour timestamptz, counted_before timestamptz, to_hour timestamptz, wanted integer
) returns setof timestamptz stable language plpgsql as $$
declare
  piece record;
  found record;
  counted bigint := 0;
  from_first timestamptz := greatest(from_hour, (select min(hour) from usage_hours h where h.account_id = account));
begin
  for piece in
    select * from usage_pieces_1(account, 0, from_first, to_hour, false) p order by p.since desc
  loop
    continue when piece.day is not null and not exists (
      select from usage_spans s where s.account_id = account and s.zone = 0 and not s.is_month and s.since = piece.day
        and (of_model is null or s.model = of_model) and (of_key is null or s.key_id = of_key)
        and (of_endpoint is null or s.endpoint = of_endpoint) and (of_status is null or s.status = of_status) and s.calls > 0);
    for found in
      select h.hour, sum(h.calls) as calls from usage_hours h
      where h.account_id = account and h.hour >= piece.since and h.hour < piece.until
        and (of_model is null or h.model = of_model) and (of_key is null or h.key_id = of_key)
        and (of_endpoint is null or h.endpoint = of_endpoint) and (of_status is null or h.status = of_status) and h.calls > 0
      group by h.hour order by h.hour desc
    loop
      return next found.hour;
      if found.hour < counted_before then
        counted := counted + found.calls;
        if counted >= wanted then
          return next found.hour - interval '1 hour';
          return;
        end if;
      end if;
    end loop;
  end loop;
end $$;

-- Sums the next day, or month of summed days, that is over before a time, the newest first, of so many accounts. Says which day, and which
-- account was the last, or '' where it is done; given again, it goes on there. Nothing where none is due, or another process is at it. An hour
-- is never marked as late meanwhile and its mark taken away: that needs the same lock.
create function sum_usage_span_1(over_since timestamptz, last_since date, last_account text, most integer)
returns table (since date, account text) language plpgsql as $$
#variable_conflict use_column
declare
  zones smallint[] := '{0,7,8,9}';
  reach integer := 367;
  of_month boolean := false;
  day date;
  begins timestamptz;
  ends timestamptz;
  payer text;
  summed integer := 0;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('loket:call_hours', 0)) then
    return;
  end if;
  day := (
    select max(d.day)::date
    from (select greatest(min(hour), over_since - make_interval(days => reach)) as hour from profit_hours) oldest,
      generate_series((oldest.hour at time zone 'UTC')::date, (over_since at time zone 'UTC')::date - 1, interval '1 day') d (day)
    where not exists (select from usage_spans_summed s where not s.is_month and s.since = d.day)
  );
  if day is null then
    of_month := true;
    day := (
      select max(m.since) from (
        select distinct date_trunc('month', s.since)::date as since from usage_spans_summed s where not s.is_month) m
      where m.since + interval '1 month' <= (over_since at time zone 'UTC')::date
        and not exists (select from usage_spans_summed s where s.is_month and s.since = m.since)
    );
  end if;
  if day is null then
    return;
  end if;
  begins := span_begins(day, 0);
  ends := span_ends(day, of_month, 0);
  for payer in
    select large.account_id from (
      select p.account_id from profit_hours p where not of_month and p.hour >= begins and p.hour < ends
      group by 1 having sum(p.records) >= 100
      union all
      select a.account_id from usage_span_accounts a
      where of_month and not a.is_month and a.since >= day and a.since < day + interval '1 month' group by 1 having count(*) >= 4
    ) large
    where (last_since is distinct from day or large.account_id > last_account)
      and not exists (select from usage_span_accounts a where a.account_id = large.account_id and a.is_month = of_month and a.since = day)
    order by 1 limit most
  loop
    summed := summed + 1;
    -- What is too large for a sum is read by the hour, as without it.
    begin
      insert into usage_spans
      select payer, z.zone, of_month, day, h.model, h.key_id, h.endpoint, h.status, sum(h.calls), sum(h.input_tokens), sum(h.output_tokens),
        sum(h.cache_read_tokens), sum(h.cache_write_tokens), sum(h.charge_micro), sum(h.cache_reads)
      from unnest(zones) z (zone) cross join lateral (
        select * from usage_hours u
        where u.account_id = payer and u.hour >= span_begins(day, z.zone) and u.hour < span_ends(day, of_month, z.zone)
      ) h
      group by 2, 5, 6, 7, 8;
      insert into usage_span_accounts values (payer, of_month, day);
    exception when numeric_value_out_of_range then null;
    end;
  end loop;
  if summed < most then
    payer := '';
    insert into usage_spans_summed values (of_month, day);
  end if;
  return query select day, payer;
end $$;

-- Takes away the sums of days and months that an hour is in, in any zone; they are made again.
create function forget_usage_spans_1(of_hour timestamptz) returns void language plpgsql as $$
declare
  days date[] := array[(of_hour at time zone 'UTC')::date, (of_hour at time zone 'UTC' + interval '9 hours')::date];
begin
  days := days || array(select date_trunc('month', d)::date from unnest(days) d);
  delete from usage_spans s using usage_span_accounts a
  where a.since = any (days) and s.account_id = a.account_id and s.is_month = a.is_month and s.since = a.since
    and s.zone in (0, 7, 8, 9)
    and of_hour >= span_begins(a.since, 9) and of_hour < span_ends(a.since, a.is_month, 0);
  delete from usage_span_accounts a
  where a.since = any (days) and of_hour >= span_begins(a.since, 9) and of_hour < span_ends(a.since, a.is_month, 0);
  delete from usage_spans_summed s
  where s.since = any (days) and of_hour >= span_begins(s.since, 9) and of_hour < span_ends(s.since, s.is_month, 0);
end $$;

-- As in 0077_latency_hours.sql, and what an hour that was summed before is part of is summed again.
create or replace function sum_call_hour_1(of_hour timestamptz, first_id text, end_id text) returns boolean language plpgsql as $$
begin
  if not pg_try_advisory_xact_lock(hashtextextended('loket:call_hours', 0)) then
    return false;
  end if;
  delete from call_late where hour = of_hour;
  if found then
    perform forget_usage_spans_1(of_hour);
  end if;
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
