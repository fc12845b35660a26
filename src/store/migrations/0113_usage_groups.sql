-- The days and months of usage_spans, each by one thing alone: all its calls together, or those of each model, key, format or status, with their times
-- to the first token. Most questions name no more than one, and a day has a few dozen of these and hundreds of usage_spans. They stand where usage_spans do,
-- and are made and forgotten with them.
create table usage_groups (
  account_id text not null,
  zone smallint not null,
  is_month boolean not null,
  since date not null,
  -- all, model, key, format or status.
  grouped_by text not null,
  -- Of that; of all it is empty.
  name text not null,
  calls bigint not null,
  ok bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cache_read_tokens bigint not null,
  cache_write_tokens bigint not null,
  charge_micro bigint not null,
  cache_reads bigint not null,
  -- As in latency_hours; empty where no call had a first token. Then the steps of its percentiles.
  steps smallint[] not null,
  step_calls integer[] not null,
  p50 smallint,
  p95 smallint,
  primary key (account_id, zone, is_month, since, grouped_by, name)
);

-- What was summed before has none: it is summed again. Not while the chore sums, which has still to go by the function before this one; and not by
-- truncating, for which those who read would have to let go of them.
select pg_advisory_xact_lock(hashtextextended('loket:call_hours', 0));
delete from usage_span_accounts;
delete from usage_spans;
delete from usage_spans_summed;

-- An account's day or month as what it is summed of, in each zone: a month of its days that are summed, and of the hours of the others.
create function usage_span_pieces_1(payer text, of_month boolean, day date)
returns table (zone smallint, since timestamptz, until timestamptz, summed_day date) stable language sql as $$
  select z.zone, p.since, p.until, p.day
  from unnest('{0,7,8,9}'::smallint[]) z (zone)
  cross join lateral usage_pieces_1(payer, z.zone, span_begins(day, z.zone), span_ends(day, of_month, z.zone), false) p
$$;

-- Whether an account's day or month is made of more rows than are added up well within the time that a statement has: of thousands of keys, say.
create function is_large_span_1(payer text, of_month boolean, day date) returns boolean stable language sql as $$
  select count(*) > 20000 from (
    select from usage_span_pieces_1(payer, of_month, day) p cross join lateral (
      select from usage_spans s
      where p.summed_day is not null and s.account_id = payer and s.zone = 0 and not s.is_month and s.since = p.summed_day
      union all
      select from usage_hours u where p.summed_day is null and u.account_id = payer and u.hour >= p.since and u.hour < p.until
      offset 0
    ) r where p.zone = 0 limit 20001
  ) few
$$;

-- The rows of usage_groups of an account's day or month of which usage_spans are there.
create function sum_usage_groups_1(payer text, of_month boolean, day date) returns void language sql as $$
  with named as materialized (
    select s.*, g.grouped_by, g.name from usage_spans s cross join lateral (
      values ('all', ''), ('model', s.model), ('key', s.key_id), ('format', s.endpoint), ('status', s.status)
    ) g (grouped_by, name)
    where s.account_id = payer and s.zone in (0, 7, 8, 9) and s.is_month = of_month and s.since = day
  ), sums as (
    select zone, grouped_by, name, sum(calls) as calls, sum(calls) filter (where status = 'ok') as ok, sum(input_tokens) as input_tokens,
      sum(output_tokens) as output_tokens, sum(cache_read_tokens) as cache_read_tokens, sum(cache_write_tokens) as cache_write_tokens,
      sum(charge_micro) as charge_micro, sum(cache_reads) as cache_reads
    from named group by 1, 2, 3
  ), pieces as materialized (
    select * from usage_span_pieces_1(payer, of_month, day)
  ), parts as (
    select p.zone, g.grouped_by, g.name, t.step, t.calls::bigint as calls
    from pieces p cross join lateral (
      select * from usage_groups u where u.account_id = payer and u.zone = p.zone and not u.is_month and u.since = p.summed_day offset 0
    ) g cross join lateral unnest(g.steps, g.step_calls) t (step, calls)
    where p.summed_day is not null
    union all
    select zone, case grouping(model, key_id, endpoint, status) when 7 then 'model' when 11 then 'key' when 13 then 'format' when 14 then 'status'
        else 'all' end,
      coalesce(model, key_id, endpoint, status, ''), step, sum(calls)::bigint
    from (
      select p.zone, l.model, l.key_id, l.endpoint, l.status, t.step, t.calls
      from pieces p cross join lateral (
        select * from latency_hours h where h.account_id = payer and h.hour >= p.since and h.hour < p.until offset 0
      ) l cross join lateral unnest(l.steps, l.calls) t (step, calls)
      where p.summed_day is null
    ) hours
    group by grouping sets ((zone, step), (zone, step, model), (zone, step, key_id), (zone, step, endpoint), (zone, step, status))
  ), times as (
    select zone, grouped_by, name, step, sum(calls) as calls from parts group by 1, 2, 3, 4
  ), ranked as (
    select *, sum(calls) over (partition by zone, grouped_by, name order by step) as up_to,
      sum(calls) over (partition by zone, grouped_by, name) as of
    from times
  ), histograms as (
    select zone, grouped_by, name, array_agg(step order by step) as steps, array_agg(calls::integer order by step) as step_calls,
      min(step) filter (where up_to >= 0.5 * of) as p50, min(step) filter (where up_to >= 0.95 * of) as p95
    from ranked group by 1, 2, 3
  )
  insert into usage_groups
  select payer, zone, of_month, day, grouped_by, name, s.calls, coalesce(s.ok, 0), s.input_tokens, s.output_tokens, s.cache_read_tokens,
    s.cache_write_tokens, s.charge_micro, s.cache_reads, coalesce(h.steps, '{}'), coalesce(h.step_calls, '{}'), h.p50, h.p95
  from sums s left join histograms h using (zone, grouped_by, name)
$$;

-- Whether the times to the first token of all hours between two are summed, from a first hour on.
create function has_first_tokens_1(begins timestamptz, ends timestamptz, first_hour timestamptz) returns boolean stable language sql as $$
  select not exists (
    select from generate_series(greatest(begins, least(first_hour, ends)), ends - interval '1 hour', interval '1 hour') each_hour (hour)
    where not exists (select from latency_summed s where s.hour = each_hour.hour)
  )
$$;

-- As in 0098_no_spans_without_calls.sql, with usage_groups, and months made of their days. A day is due when the times to the first token of all its
-- hours that have records are summed. After a second no other account is begun; the next statement goes on there.
create or replace function sum_usage_span_1(over_since timestamptz, last_since date, last_account text, most integer)
returns table (since date, account text) language plpgsql as $$
#variable_conflict use_column
declare
  reach integer := 367;
  of_month boolean := false;
  day date;
  begins timestamptz;
  ends timestamptz;
  payer text;
  is_over boolean := true;
  summed integer := 0;
  began timestamptz := clock_timestamp();
  -- Before it there is no record of which times to the first token could be summed.
  first_hour timestamptz;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('loket:call_hours', 0)) then
    return;
  end if;
  first_hour := coalesce((select date_trunc('hour', opened_at, 'UTC') from usage order by request_id limit 1), 'infinity');
  day := (
    select max(d.day)::date
    from (
      select greatest(min(hour), over_since - make_interval(days => reach)) as hour from profit_hours having min(hour) is not null
    ) oldest, generate_series((oldest.hour at time zone 'UTC')::date, (over_since at time zone 'UTC')::date - 1, interval '1 day') d (day)
    where not exists (select from usage_spans_summed s where not s.is_month and s.since = d.day)
      and has_first_tokens_1(span_begins(d.day::date, 9), span_ends(d.day::date, false, 0), first_hour)
  );
  if day is null then
    of_month := true;
    day := (
      select max(m.since) from (
        select distinct date_trunc('month', s.since)::date as since from usage_spans_summed s where not s.is_month) m
      where m.since + interval '1 month' <= (over_since at time zone 'UTC')::date
        and not exists (select from usage_spans_summed s where s.is_month and s.since = m.since)
        and has_first_tokens_1(span_begins(m.since, 9), span_ends(m.since, true, 0), first_hour)
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
    is_over := summed < most;
    -- What is of too many rows, or too large for a sum, is read by the hour, as without it.
    continue when is_large_span_1(payer, of_month, day);
    begin
      insert into usage_spans
      select payer, h.zone, of_month, day, h.model, h.key_id, h.endpoint, h.status, sum(h.calls), sum(h.input_tokens), sum(h.output_tokens),
        sum(h.cache_read_tokens), sum(h.cache_write_tokens), sum(h.charge_micro), sum(h.cache_reads)
      from (
        select p.zone, s.model, s.key_id, s.endpoint, s.status, s.calls, s.input_tokens, s.output_tokens, s.cache_read_tokens, s.cache_write_tokens,
          s.charge_micro, s.cache_reads
        from usage_span_pieces_1(payer, of_month, day) p cross join lateral (
          select * from usage_spans u where u.account_id = payer and u.zone = p.zone and not u.is_month and u.since = p.summed_day offset 0
        ) s where p.summed_day is not null
        union all
        select p.zone, u.model, u.key_id, u.endpoint, u.status, u.calls, u.input_tokens, u.output_tokens, u.cache_read_tokens, u.cache_write_tokens,
          u.charge_micro, u.cache_reads
        from usage_span_pieces_1(payer, of_month, day) p cross join lateral (
          select * from usage_hours u where u.account_id = payer and u.hour >= p.since and u.hour < p.until offset 0
        ) u where p.summed_day is null
      ) h
      group by 2, 5, 6, 7, 8;
      perform sum_usage_groups_1(payer, of_month, day);
      insert into usage_span_accounts values (payer, of_month, day);
    exception when numeric_value_out_of_range then null;
    end;
    if clock_timestamp() > began + interval '1 second' then
      is_over := false;
      exit;
    end if;
  end loop;
  if is_over then
    payer := '';
    insert into usage_spans_summed values (of_month, day);
  end if;
  return query select day, payer;
end $$;

-- As in 0091_usage_spans.sql, with usage_groups.
create or replace function forget_usage_spans_1(of_hour timestamptz) returns void language plpgsql as $$
declare
  days date[] := array[(of_hour at time zone 'UTC')::date, (of_hour at time zone 'UTC' + interval '9 hours')::date];
begin
  days := days || array(select date_trunc('month', d)::date from unnest(days) d);
  delete from usage_groups s using usage_span_accounts a
  where a.since = any (days) and s.account_id = a.account_id and s.is_month = a.is_month and s.since = a.since
    and s.zone in (0, 7, 8, 9)
    and of_hour >= span_begins(a.since, 9) and of_hour < span_ends(a.since, a.is_month, 0);
  delete from usage_spans s using usage_span_accounts a
  where a.since = any (days) and s.account_id = a.account_id and s.is_month = a.is_month and s.since = a.since
    and s.zone in (0, 7, 8, 9)
    and of_hour >= span_begins(a.since, 9) and of_hour < span_ends(a.since, a.is_month, 0);
  delete from usage_span_accounts a
  where a.since = any (days) and of_hour >= span_begins(a.since, 9) and of_hour < span_ends(a.since, a.is_month, 0);
  delete from usage_spans_summed s
  where s.since = any (days) and of_hour >= span_begins(s.since, 9) and of_hour < span_ends(s.since, s.is_month, 0);
end $$;
