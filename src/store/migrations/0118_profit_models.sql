-- The sums of profit of each account by months (UTC), as in profit_account_months, with models and members: what the costliest accounts are divided
-- into is read from months, and of parts of days (profit_days) only what is beside them. Of all days that are in profit_account_summed and `grouped`,
-- as profit_days has them now, also where something of them is late. Made by a chore, never when a call is booked.
create table profit_account_models (
  month date not null,
  account_id text not null,
  model text not null,
  member text not null,
  -- Final records, and all.
  calls bigint not null,
  records bigint not null,
  charge_micro numeric not null,
  absorbed_micro numeric not null,
  cost_micro numeric not null,
  estimated_micro numeric not null,
  unknown bigint not null,
  under bigint not null,
  under_micro numeric not null,
  primary key (month, account_id, model, member)
) with (fillfactor = 70);

-- Whether the day is in profit_account_models.
alter table profit_account_summed add column grouped boolean not null default false;

-- Adds what profit_days has of a day.
create function add_profit_account_models_1(of_day date) returns void language sql as $$
  insert into profit_account_models as m
  select date_trunc('month', of_day::timestamp)::date, account_id, model, member,
    coalesce(sum(records) filter (where profit_is_final(kind)), 0), sum(records), sum(charge_micro), sum(absorbed_micro), sum(cost_micro),
    sum(estimated_micro), sum(unknown), sum(under), sum(under_micro)
  from profit_days where since >= span_begins(of_day, 0) and since < span_ends(of_day, false, 0) group by 2, 3, 4 order by 2, 3, 4
  on conflict (month, account_id, model, member) do update set
    calls = m.calls + excluded.calls, records = m.records + excluded.records, charge_micro = m.charge_micro + excluded.charge_micro,
    absorbed_micro = m.absorbed_micro + excluded.absorbed_micro, cost_micro = m.cost_micro + excluded.cost_micro,
    estimated_micro = m.estimated_micro + excluded.estimated_micro, unknown = m.unknown + excluded.unknown, under = m.under + excluded.under,
    under_micro = m.under_micro + excluded.under_micro
$$;

-- Adds what the hours of a part have by now and profit_days has not yet, which is little of all.
create function add_late_profit_account_models_1(part timestamptz) returns void language sql as $$
  insert into profit_account_models as m
  select date_trunc('month', part at time zone 'UTC')::date, h.account_id, h.model, h.member,
    coalesce(sum(h.records - coalesce(d.records, 0)) filter (where profit_is_final(h.kind)), 0), sum(h.records - coalesce(d.records, 0)),
    sum(h.charge_micro - coalesce(d.charge_micro, 0)), sum(h.absorbed_micro - coalesce(d.absorbed_micro, 0)),
    sum(h.cost_micro - coalesce(d.cost_micro, 0)), sum(h.estimated_micro - coalesce(d.estimated_micro, 0)),
    sum(h.unknown - coalesce(d.unknown, 0)), sum(h.under - coalesce(d.under, 0)), sum(h.under_micro - coalesce(d.under_micro, 0))
  from (
    select account_id, model, member, kind, sum(records) as records, sum(charge_micro) as charge_micro, sum(absorbed_micro) as absorbed_micro,
      sum(cost_micro) as cost_micro, sum(estimated_micro) as estimated_micro, sum(unknown) as unknown, sum(under) as under, sum(under_micro) as under_micro
    from profit_hours where hour >= part and hour < profit_part_end(part) group by 1, 2, 3, 4
  ) h left join (select * from profit_days where since = part) d using (account_id, model, member, kind)
  where (h.records, h.charge_micro, h.absorbed_micro, h.cost_micro, h.estimated_micro, h.unknown, h.under, h.under_micro)
    is distinct from (d.records, d.charge_micro, d.absorbed_micro, d.cost_micro, d.estimated_micro, d.unknown, d.under, d.under_micro)
  group by 2, 3, 4 order by 2, 3, 4
  on conflict (month, account_id, model, member) do update set
    calls = m.calls + excluded.calls, records = m.records + excluded.records, charge_micro = m.charge_micro + excluded.charge_micro,
    absorbed_micro = m.absorbed_micro + excluded.absorbed_micro, cost_micro = m.cost_micro + excluded.cost_micro,
    estimated_micro = m.estimated_micro + excluded.estimated_micro, unknown = m.unknown + excluded.unknown, under = m.under + excluded.under,
    under_micro = m.under_micro + excluded.under_micro
$$;

-- As in 0110_profit_accounts.sql, and with the sums by models; at last, days that were summed before those were kept.
create or replace function sum_profit_accounts_1() returns date language plpgsql as $$
declare
  next_day date;
  was_summed boolean;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('loket:profit_days', 0)) then
    return null;
  end if;
  next_day := (select max(day) from profit_account_summed where not stands);
  if next_day is null then
    -- A part without hours is none.
    next_day := (
      select max(d.day)::date
      from (select min(since) as first, profit_part_end(max(since)) as until from profit_parts) p
      cross join lateral generate_series(
        date_trunc('day', p.first at time zone 'UTC'), date_trunc('day', p.until at time zone 'UTC') - interval '1 day', interval '1 day'
      ) d (day)
      where not exists (select from profit_account_summed s where s.day = d.day::date)
        and not exists (
          select from (values (0), (15), (16), (17)) h (hour), lateral (select (d.day + make_interval(hours => h.hour)) at time zone 'UTC' as since) each_part
          where not exists (select from profit_parts s where s.since = each_part.since)
            and exists (select from profit_hours p where p.hour >= each_part.since and p.hour < profit_part_end(each_part.since))
        )
    );
  end if;
  if next_day is null then
    next_day := (select max(day) from profit_account_summed where not grouped);
  end if;
  if next_day is null then
    return null;
  end if;
  was_summed := exists (select from profit_account_summed where day = next_day and stands);
  if not was_summed then
    -- Nothing removes parts, so no account is left over.
    with fresh as materialized (
      select account_id, coalesce(sum(records) filter (where profit_is_final(kind)), 0)::bigint as calls, sum(records)::bigint as records,
        sum(charge_micro) as charge_micro, sum(absorbed_micro) as absorbed_micro, sum(cost_micro) as cost_micro, sum(estimated_micro) as estimated_micro,
        sum(unknown)::bigint as unknown, sum(under)::bigint as under, sum(under_micro) as under_micro
      from profit_days where since >= span_begins(next_day, 0) and since < span_ends(next_day, false, 0) group by 1
    ), changed as materialized (
      select f.*, f.calls - coalesce(d.calls, 0) as more_calls, f.records - coalesce(d.records, 0) as more_records,
        f.charge_micro - coalesce(d.charge_micro, 0) as more_charge, f.absorbed_micro - coalesce(d.absorbed_micro, 0) as more_absorbed,
        f.cost_micro - coalesce(d.cost_micro, 0) as more_cost, f.estimated_micro - coalesce(d.estimated_micro, 0) as more_estimated,
        f.unknown - coalesce(d.unknown, 0) as more_unknown, f.under - coalesce(d.under, 0) as more_under, f.under_micro - coalesce(d.under_micro, 0) as more_under_micro
      -- Each by its key, however many days there are.
      from fresh f left join lateral (
        select * from profit_account_days k where k.account_id = f.account_id and k.day = next_day offset 0
      ) d on true
      where (f.calls, f.records, f.charge_micro, f.absorbed_micro, f.cost_micro, f.estimated_micro, f.unknown, f.under, f.under_micro)
        is distinct from (d.calls, d.records, d.charge_micro, d.absorbed_micro, d.cost_micro, d.estimated_micro, d.unknown, d.under, d.under_micro)
    ), monthly as (
      insert into profit_account_months as m
      select date_trunc('month', next_day::timestamp)::date, account_id, more_calls, more_records, more_charge, more_absorbed, more_cost, more_estimated,
        more_unknown, more_under, more_under_micro
      from changed order by account_id
      on conflict (month, account_id) do update set
        calls = m.calls + excluded.calls, records = m.records + excluded.records, charge_micro = m.charge_micro + excluded.charge_micro,
        absorbed_micro = m.absorbed_micro + excluded.absorbed_micro, cost_micro = m.cost_micro + excluded.cost_micro,
        estimated_micro = m.estimated_micro + excluded.estimated_micro, unknown = m.unknown + excluded.unknown, under = m.under + excluded.under,
        under_micro = m.under_micro + excluded.under_micro
    )
    insert into profit_account_days
    select account_id, next_day, calls, records, charge_micro, absorbed_micro, cost_micro, estimated_micro, unknown, under, under_micro
    from changed order by account_id
    on conflict (account_id, day) do update set
      calls = excluded.calls, records = excluded.records, charge_micro = excluded.charge_micro, absorbed_micro = excluded.absorbed_micro,
      cost_micro = excluded.cost_micro, estimated_micro = excluded.estimated_micro, unknown = excluded.unknown, under = excluded.under,
      under_micro = excluded.under_micro;
  end if;
  -- Parts of days that are in the sums by models keep them when they are summed again.
  if not exists (select from profit_account_summed where day = next_day and grouped) then
    perform add_profit_account_models_1(next_day);
  end if;
  insert into profit_account_summed values (next_day, true, true) on conflict (day) do update set stands = true, grouped = true;
  return next_day;
end $$;

-- As in 0115_model_customers.sql, and with the sums by models of the day that the part is in.
create or replace function sum_profit_part_1(over_since timestamptz) returns timestamptz language plpgsql as $$
declare
  part timestamptz;
  was_summed boolean;
  was_grouped boolean;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('loket:profit_days', 0)) then
    return null;
  end if;
  part := (
    select min(since) from profit_late
    where profit_part_end(since) < over_since and since <= (select max(p.since) from profit_parts p)
  );
  if part is null then
    part := (
      select profit_part(min(hour)) from profit_hours
      where hour >= coalesce((select profit_part_end(max(since)) from profit_parts), '-infinity') and hour < over_since
    );
  end if;
  if part is null or profit_part_end(part) >= over_since then
    return null;
  end if;
  was_summed := exists (select from profit_parts where since = part);
  was_grouped := exists (select from profit_account_summed where day = (part at time zone 'UTC')::date and grouped);
  delete from profit_late where since = part;
  delete from customer_days where day = ((part at time zone 'UTC') + make_interval(hours => zone))::date;
  update profit_account_summed set stands = false where day = (part at time zone 'UTC')::date;
  if was_grouped then
    perform add_late_profit_account_models_1(part);
  end if;
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
    under_micro = excluded.under_micro
  -- Of a part that is summed again hardly any row has changed.
  where (d.records, d.input_tokens, d.output_tokens, d.cache_read_tokens, d.cache_write_tokens, d.charge_micro, d.absorbed_micro, d.cost_micro,
      d.estimated_micro, d.unknown, d.under, d.under_micro)
    is distinct from (excluded.records, excluded.input_tokens, excluded.output_tokens, excluded.cache_read_tokens, excluded.cache_write_tokens,
      excluded.charge_micro, excluded.absorbed_micro, excluded.cost_micro, excluded.estimated_micro, excluded.unknown, excluded.under, excluded.under_micro);
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
  perform sum_model_customers_1(part, was_summed);
  insert into profit_parts values (part) on conflict do nothing;
  return part;
end $$;
