-- As in 0091_usage_spans.sql; where nobody has called, no days are due: a new database took each of the last year for one without calls.
create or replace function sum_usage_span_1(over_since timestamptz, last_since date, last_account text, most integer)
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
    from (
      select greatest(min(hour), over_since - make_interval(days => reach)) as hour from profit_hours having min(hour) is not null
    ) oldest, generate_series((oldest.hour at time zone 'UTC')::date, (over_since at time zone 'UTC')::date - 1, interval '1 day') d (day)
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
