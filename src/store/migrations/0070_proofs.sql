-- Up to where the books were proven, so that a reconciliation reads what came since. A proof is the sums of all before it, and is made
-- when nothing differed.
create table proofs (
  id bigint generated always as identity primary key,
  made_at timestamptz not null default now(),
  -- Everything was read for it, and not only what was new since the proof before.
  is_full boolean not null,
  -- Calls whose ids sort before it, and transfers up to this one, are in its sums.
  until_call text not null,
  until_transfer bigint not null
);
-- Of the latest proof: what its transfers leave of each account, the house's own too.
create table proven_accounts (
  proof_id bigint not null,
  account_id text not null,
  amount_micro numeric not null,
  primary key (proof_id, account_id)
);
-- What was charged to each key, and under each lease that was open.
create table proven_keys (
  proof_id bigint not null,
  key_id text not null,
  charge_micro numeric not null,
  primary key (proof_id, key_id)
);
create table proven_leases (
  proof_id bigint not null,
  lease_id bigint not null,
  charge_micro numeric not null,
  primary key (proof_id, lease_id)
);

-- Records that were booked or changed more than an hour after their calls began, and so perhaps after they were proven; and by how much
-- their charges changed.
create table call_changes (
  id bigint generated always as identity primary key,
  request_id text not null,
  account_id text not null,
  key_id text not null,
  lease_id bigint not null,
  charge_micro bigint not null
);

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
    insert into call_late select distinct date_trunc('hour', opened_at, 'UTC') from added where part = 0 and call_is_late(opened_at);
    insert into call_changes (request_id, account_id, key_id, lease_id, charge_micro)
    select request_id, account_id, key_id, lease_id, charge_micro from added where opened_at < now() - interval '1 hour';
  end if;
  return null;
end $$;

create or replace function mark_profit_late() returns trigger language plpgsql as $$
begin
  insert into profit_late select profit_part(old.opened_at) where profit_is_late(old.opened_at);
  insert into call_late select date_trunc('hour', old.opened_at, 'UTC') where old.part = 0 and call_is_late(old.opened_at);
  if old.opened_at < now() - interval '1 hour' then
    insert into call_changes (request_id, account_id, key_id, lease_id, charge_micro)
    values (old.request_id, old.account_id, old.key_id, old.lease_id, -old.charge_micro);
    if tg_op = 'UPDATE' then
      insert into call_changes (request_id, account_id, key_id, lease_id, charge_micro)
      values (new.request_id, new.account_id, new.key_id, new.lease_id, new.charge_micro);
    end if;
  end if;
  return null;
end $$;

-- Makes a proof of calls before one and of transfers up to one, which is the sums of the proof before and of what came since, or of
-- everything. Null where another was made meanwhile. Changes that were looked at are done with; later ones are in the sums and are
-- looked at next time.
create function prove_1(base bigint, everything boolean, before_call text, last_transfer bigint, last_change bigint)
returns bigint language plpgsql as $$
declare
  from_call text := '';
  from_transfer bigint := 0;
  made bigint;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('loket:proofs', 0)) then
    return null;
  end if;
  if base is distinct from (select max(id) from proofs) then
    return null;
  end if;
  if not everything then
    select p.until_call, p.until_transfer into strict from_call, from_transfer from proofs p where p.id = base;
  end if;
  insert into proofs (is_full, until_call, until_transfer) values (everything, before_call, last_transfer) returning id into made;
  -- One statement, so that a change and its record are seen both or not at all.
  with changes as materialized (
    select * from call_changes where not everything and request_id < from_call
  ), looked_at as (
    delete from call_changes where id <= last_change
  ), not_looked_at as (
    update call_changes set charge_micro = 0 where id > last_change
  ), accounts as (
    insert into proven_accounts (proof_id, account_id, amount_micro)
    select made, account, sum(amount) from (
      select account_id, amount_micro from proven_accounts where proof_id = base and not everything
      union all
      select m.account, m.amount from transfers t
      cross join lateral (values (t.credit_account, t.amount_micro), (t.debit_account, -t.amount_micro)) m (account, amount)
      where t.id > from_transfer and t.id <= last_transfer
    ) moved (account, amount) group by account
  ), keys as (
    insert into proven_keys (proof_id, key_id, charge_micro)
    select made, key_id, sum(amount) from (
      select key_id, charge_micro from proven_keys where proof_id = base and not everything
      union all select key_id, charge_micro from usage where request_id >= from_call and request_id < before_call
      union all select key_id, charge_micro from changes
    ) charged (key_id, amount) group by key_id
  )
  insert into proven_leases (proof_id, lease_id, charge_micro)
  select made, lease_id, sum(amount) from (
    select lease_id, charge_micro from proven_leases where proof_id = base and not everything
    union all select lease_id, charge_micro from usage where request_id >= from_call and request_id < before_call
    union all select lease_id, charge_micro from changes
  ) charged (lease_id, amount)
  where lease_id in (select id from leases where closed_at is null) group by lease_id;
  delete from proven_accounts where proof_id < made;
  delete from proven_keys where proof_id < made;
  delete from proven_leases where proof_id < made;
  return made;
end $$;
