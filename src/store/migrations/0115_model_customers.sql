-- When each account has last made a charged call of a model, by the hour: how many customers a model has had since a time takes no sums of a month.
-- Kept of parts of days that are summed (profit_parts), by the same chore; not true of a part that is in profit_late.
create table model_customers (
  model text not null,
  account_id text not null,
  last_hour timestamptz not null,
  primary key (model, account_id)
) with (fillfactor = 90);
create index model_customers_last on model_customers (model, last_hour);

-- No part is summed meanwhile by the function before this one.
select pg_advisory_xact_lock(hashtextextended('loket:profit_days', 0));
insert into model_customers
select model, account_id, max(hour) from profit_hours
where hour > now() - interval '40 days' and kind = 'ok' and records > 0 and profit_part(hour) in (select since from profit_parts)
group by 1, 2;

-- `again`: the part was summed before, and calls may have been taken back since.
create function sum_model_customers_1(part timestamptz, again boolean) returns void language plpgsql as $$
begin
  if again then
    -- Back to the hour before, if there is one that anybody asks for.
    with gone as materialized (
      select c.model, c.account_id, (
        select max(h.hour) from generate_series(part - interval '40 days', profit_part_end(part) - interval '1 hour', interval '1 hour') h (hour)
        where exists (
          select from profit_hours p
          where p.hour = h.hour and p.account_id = c.account_id and p.model = c.model and p.kind = 'ok' and p.records > 0
        )
      ) as last_hour
      from model_customers c
      where c.last_hour >= part and c.last_hour < profit_part_end(part) and not exists (
        select from profit_hours p
        where p.hour >= part and p.hour < profit_part_end(part)
          and p.hour = c.last_hour and p.account_id = c.account_id and p.model = c.model and p.kind = 'ok' and p.records > 0
      )
    ), forgotten as (
      delete from model_customers c using gone g where c.model = g.model and c.account_id = g.account_id and g.last_hour is null
    )
    update model_customers c set last_hour = g.last_hour
    from gone g where c.model = g.model and c.account_id = g.account_id and g.last_hour is not null;
  end if;
  insert into model_customers as c
  select model, account_id, max(hour) from profit_hours
  where hour >= part and hour < profit_part_end(part) and kind = 'ok' and records > 0 group by 1, 2 order by 1, 2
  on conflict (model, account_id) do update set last_hour = excluded.last_hour where c.last_hour < excluded.last_hour;
end $$;

-- How many accounts have made charged calls of a model from an hour on.
create function model_customers_1(of_model text, since_hour timestamptz) returns bigint stable language sql as $$
  with unsummed as materialized (
    select h.hour
    from generate_series(since_hour, now() + interval '1 day', interval '1 hour') h (hour)
    where (profit_part(h.hour) in (select p.since from profit_parts p except select l.since from profit_late l)) is not true
  ), callers as materialized (
    select distinct c.account_id from unsummed u cross join lateral (
      select p.account_id from profit_hours p where p.hour = u.hour and p.model = of_model and p.kind = 'ok' and p.records > 0 offset 0
    ) c
  ), doubtful as materialized (
    select c.account_id from profit_late l cross join lateral (
      select m.account_id, m.last_hour from model_customers m
      where m.model = of_model and m.last_hour >= greatest(l.since, since_hour) and m.last_hour < profit_part_end(l.since) offset 0
    ) c
    -- Once, however often the part is marked.
    group by 1
  )
  select (select count(*) from model_customers m where m.model = of_model and m.last_hour >= since_hour)
    + (select count(*) from callers c where not exists (
        select from model_customers m where m.model = of_model and m.account_id = c.account_id and m.last_hour >= since_hour))
    - (select count(*) from doubtful d where d.account_id not in (select account_id from callers) and not exists (
        select from generate_series(since_hour, now() + interval '1 day', interval '1 hour') h (hour) cross join lateral (
          select from profit_hours p
          where p.hour = h.hour and p.account_id = d.account_id and p.model = of_model and p.kind = 'ok' and p.records > 0 offset 0
        ) called))
$$;

-- As in 0110_profit_accounts.sql, and with the customers of models.
create or replace function sum_profit_part_1(over_since timestamptz) returns timestamptz language plpgsql as $$
declare
  part timestamptz;
  was_summed boolean;
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
  delete from profit_late where since = part;
  delete from customer_days where day = ((part at time zone 'UTC') + make_interval(hours => zone))::date;
  update profit_account_summed set stands = false where day = (part at time zone 'UTC')::date;
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
  perform sum_model_customers_1(part, was_summed);
  insert into profit_parts values (part) on conflict do nothing;
  return part;
end $$;
