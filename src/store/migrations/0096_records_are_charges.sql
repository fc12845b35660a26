-- A record is its charge: a transfer of charge_micro from its account to house:revenue, of calls from the id on that is in `charges_end`. What calls
-- before it were charged is in `charges`, or, still older, in `transfers`, and stays there. The id is of a coming month, so that nothing that is
-- under way is on both sides of it; in a database without calls all are after it.
create table charges_end (
  one boolean primary key default true check (one),
  until_call text not null
);
-- What archived calls whose records were their charges were charged, in all: of each account and month one transfer.
create table archived_charges (
  archive text not null references archives,
  account_id text not null,
  amount_micro bigint not null check (amount_micro > 0),
  primary key (account_id, archive)
);

-- Whoever books as before waits for it, and then is told to begin again. In the order in which it locks them.
lock table usage in share row exclusive mode;
lock table charges in access exclusive mode;
select set_config('enable_seqscan', 'off', true), set_config('enable_indexonlyscan', 'on', true), set_config('enable_indexscan', 'on', true);
-- Ids of a clock that was ahead are before it too.
insert into charges_end (until_call)
select case
  when c.newest is null and not exists (select from archives) then ''
  else greatest(first_call((date_trunc('month', now() at time zone 'UTC' + interval '1 day') + interval '1 month') at time zone 'UTC'), c.newest || '0') end
from (
  select greatest((select request_id from usage order by request_id desc limit 1), (select request_id from charges order by request_id desc limit 1))
) c (newest);

create function forbid_late_charges() returns trigger language plpgsql as $$
begin
  if exists (select from added where request_id >= (select until_call from charges_end)) then
    raise exception 'a record is its charge: no row of charges is made from % on', (select until_call from charges_end);
  end if;
  return null;
end $$;
create trigger charges_have_ended after insert on charges referencing new table as added
  for each statement execute function forbid_late_charges();

-- Nobody changes what a call was charged, or removes a record with a charge. It can be taken back, whole: then what it was and that it was taken
-- back are written as transfers, whoever did it.
create function keep_charge() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
begin
  if old.request_id < (select until_call from charges_end) then
    return case tg_op when 'DELETE' then old else new end;
  end if;
  if tg_op = 'UPDATE' then
    if (new.request_id, new.part, new.account_id, new.charge_micro) = (old.request_id, old.part, old.account_id, old.charge_micro) then
      return new;
    end if;
    if (new.request_id, new.part, new.account_id) = (old.request_id, old.part, old.account_id)
      and new.charge_micro = 0 and new.status = 'billing_error'
    then
      insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason) values
        ('charge:' || old.request_id, old.account_id, 'house:revenue', old.charge_micro, 'charge'),
        ('void:' || old.request_id, 'house:revenue', old.account_id, old.charge_micro, 'void');
      return new;
    end if;
  end if;
  raise exception 'what % was charged is never changed', old.request_id;
end $$;
create trigger usage_charge_is_final before update on usage for each row
  when (old.charge_micro > 0 or new.charge_micro > 0) execute function keep_charge();
create trigger usage_charge_is_kept before delete on usage for each row
  when (old.charge_micro > 0) execute function keep_charge();

-- A call that is not charged. Who books it may not change what records say of money, and so the owner's rights are used.
-- By a plan of its own, which locks the call's month alone.
create function take_back_1(call text) returns void language plpgsql security definer
set search_path = public, pg_temp set enable_seqscan = off set plan_cache_mode = force_custom_plan as $$
begin
  update usage u set status = 'billing_error', charge_micro = 0, absorbed_micro = 0, excess_micro = 0, flagged = true
  where u.request_id = call and u.part = 0;
end $$;

-- A charge has no id, and a time that is its call's end, or, where the record is archived, its call's time. A month's closing transfer
-- is named by the first id that its calls may have had, and has no request id: it is in no sum of new calls.
create or replace view all_transfers as
select id, idempotency_key, debit_account, credit_account, amount_micro, reason, created_at, null::text as request_id from transfers
union all
select null, 'charge:' || request_id, account_id, 'house:revenue', amount_micro, 'charge', call_at(request_id), request_id from charges
union all
select null, 'charge:' || request_id, account_id, 'house:revenue', charge_micro, 'charge', opened_at + duration_ms * interval '1 millisecond', request_id
from usage where charge_micro > 0 and request_id >= (select until_call from charges_end)
union all
select null, 'charge:' || greatest(a.from_call, (select until_call from charges_end), 'req_') || ':' || c.account_id, c.account_id, 'house:revenue', c.amount_micro, 'charge', a.until_at, null
from archived_charges c join archives a on a.name = c.archive;

-- Whoever may read transfers may read these. Records are added to, and of those that the house bears it is changed how much.
do $$
declare
  granted record;
begin
  for granted in
    select c.oid::regclass as of, a.grantee::regrole as who from pg_class c, aclexplode(c.relacl) a
    where c.oid in ('charges_end'::regclass, 'archived_charges'::regclass) and a.grantee not in (0, c.relowner) group by 1, 2
  loop
    execute format('revoke all on %s from %s', granted.of, granted.who);
  end loop;
  for granted in
    select a.grantee::regrole as who from pg_class c, aclexplode(c.relacl) a
    where c.oid = 'transfers'::regclass and a.grantee not in (0, c.relowner) and a.privilege_type = 'SELECT'
  loop
    execute format('grant select on charges_end, archived_charges to %s', granted.who);
  end loop;
  for granted in
    select a.grantee::regrole as who from pg_class c, aclexplode(c.relacl) a
    where c.oid = 'usage'::regclass and a.grantee not in (0, c.relowner) and a.privilege_type = 'UPDATE'
  loop
    execute format('revoke update, delete, truncate on usage from %s', granted.who);
    execute format('grant update (absorbed_micro, excess_micro, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, model, price_id,
      turns, attempts, cost_micro, member) on usage to %s', granted.who);
  end loop;
end $$;

-- As before, but that charges have no months after their end.
create or replace function make_months_1() returns text[] language plpgsql security definer
set search_path = public, pg_temp set lock_timeout = '100ms' as $$
declare
  since timestamptz;
  whole text;
  name text;
  begins text;
  ends text;
  bound text;
  granted record;
  was_there boolean;
  made text[] := '{}';
begin
  if not pg_try_advisory_xact_lock(hashtextextended('loket:months', 0)) then
    return made;
  end if;
  foreach whole in array array['usage', 'charges'] loop
    -- It is read whole for each month, while calls wait.
    continue when pg_relation_size(whole || '_other') > 100000000;
    -- Of the table of all before there were months.
    bound := (
      select substring(pg_get_expr(relpartbound, oid) from 'TO \(''([^'']*)''') from pg_class where oid = to_regclass(whole || '_before')
        and relispartition);
    for since in
      select (date_trunc('month', now() at time zone 'UTC') + n * interval '1 month') at time zone 'UTC' from generate_series(0, 3) n
    loop
      name := whole || '_' || to_char(since at time zone 'UTC', 'YYYY_MM');
      begins := greatest(first_call(since), bound);
      ends := first_call((since at time zone 'UTC' + interval '1 month') at time zone 'UTC');
      continue when to_regclass(name) is not null or begins >= ends;
      continue when whole = 'charges' and begins >= (select until_call from charges_end);
      execute format('select exists (select from %I where request_id >= %L and request_id < %L)', whole || '_other', begins, ends) into was_there;
      continue when was_there;
      execute format('create table %I (like %I including defaults including constraints)', name, whole);
      for granted in
        select distinct a.grantee::regrole as who from pg_class c, aclexplode(c.relacl) a
        where c.oid = name::regclass and a.grantee not in (0, c.relowner)
      loop
        execute format('revoke all on %I from %s', name, granted.who);
      end loop;
      execute format('alter table %I attach partition %I for values from (%L) to (%L)', whole, name, begins, ends);
      made := made || name;
    end loop;
  end loop;
  return made;
end $$;

-- As before, but that a record is its charge. Books a batch, which may come twice: what moves money is what is inserted into `usage` for the first time. A patient one
-- waits for rows that others have locked; else accounts whose rows are locked are left out, with all that the batch says of
-- them, and named. Named as well are calls whose lease was no longer open: the house bears what they cost.
create or replace function book_1(
  process text, patient boolean, opened book_1_opening[], ended book_1_record[], purses book_1_purse[]
) returns table (locked_account text, fenced_call text) language plpgsql
set enable_seqscan = off set plan_cache_mode = force_generic_plan set lock_timeout = '1s' as $$
declare
  payers bigint := (select count(*) from unnest(purses) where owner_kind = 'account');
  found_leases bigint[];
  open_leases bigint[];
  all_open boolean;
  skipped text[] := '{}';
  ids text[];
  parts smallint[];
  fresh book_1_record[];
  e book_1_record;
  was usage;
  void_payers integer[] := '{}';
  void_amounts bigint[] := '{}';
  changes change_1[];
  -- A variable, and so unknown to the plan.
  final_part constant smallint := 0;
  archived text[];
  has_others boolean;
  first_ended text;
  own_from text;
  archived_until text;
begin
  if cardinality(ended) > 0 then
    -- 1. The leases and balances that are paid from, locked.
    if patient then
      select array_agg(id), array_agg(id) filter (where open) into found_leases, open_leases from (
        select l.id, l.closed_at is null as open from unnest(purses) p, leases l, balances b
        where p.owner_kind = 'account' and l.id = any (array[p.lease_id]) and b.account_id = any (array[p.owner_id])
        order by p.lease_id for update of l, b
      ) each_lease;
    else
      select array_agg(id), array_agg(id) filter (where open) into found_leases, open_leases from (
        select l.id, l.closed_at is null as open from unnest(purses) p, leases l, balances b
        where p.owner_kind = 'account' and l.id = any (array[p.lease_id]) and b.account_id = any (array[p.owner_id])
        order by p.lease_id for update of l, b skip locked
      ) each_lease;
      if payers > coalesce(cardinality(found_leases), 0) then
        skipped := array(
          select distinct p.owner_id from unnest(purses) p join leases l on l.id = any (array[p.lease_id])
          where p.owner_kind = 'account' and l.id <> all (coalesce(found_leases, '{}'))
        );
        return query select s, null::text from unnest(skipped) s;
        opened := array(select o from unnest(opened) o where o.account_id <> all (skipped));
        ended := array(select r from unnest(ended) r where r.account_id <> all (skipped));
      end if;
    end if;
    -- A lease that is not there is not open.
    all_open := payers = coalesce(cardinality(open_leases), 0);

    -- Of a call that is archived no record is here: what comes again is no new one, and what is taken back is taken back all the same.
    -- Where a record was its charge, what it was is in its file alone: nothing is booked, and the call is named.
    select min(r.request_id), (select c.until_call from charges_end c), (select max(a.until_call) from archives a)
    into first_ended, own_from, archived_until from unnest(ended) r;
    if archived_until > first_ended then
      archived := array(
        select r.request_id from unnest(ended) r join archives a on r.request_id >= a.from_call and r.request_id < a.until_call
        where r.part = 0 and (select count(*) from usage u where u.request_id = r.request_id and u.part = final_part) = 0
          and (r.request_id >= own_from or exists (select from charges c where c.request_id = r.request_id)
            or exists (select from transfers t where t.idempotency_key = any (array['charge:' || r.request_id, 'absorb:' || r.request_id])))
      );
      for e in
        select r.* from unnest(ended) r where r.request_id = any (archived) and r.request_id < own_from and r.part = 0 and r.voided
        order by r.request_id
      loop
        void_payers := void_payers || e.payer;
        void_amounts := void_amounts || -void_archived_1(e.request_id, e.key_id, e.lease_id);
      end loop;
      return query select null::text, 'archived:' || a from unnest(archived) a where a >= own_from;
      ended := array(select r from unnest(ended) r where r.request_id <> all (archived));
    end if;

    -- 2. The records, each with its charge. The customer pays only under an open lease; what a fenced process still sends costs the house.
    with added as (
      insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens,
        output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, excess_micro, price_id, turns,
        attempts, error_code, flagged, opened_at, first_token_ms, duration_ms, cost_micro, member, run_id)
      select r.request_id, r.part, r.account_id, r.key_id, r.lease_id, r.model, r.endpoint, r.streamed,
        case when r.charge_micro > 0 and not open then 'billing_error' else r.status end, r.input_tokens,
        r.output_tokens, r.cache_read_tokens, r.cache_write_tokens, case when open then r.charge_micro else 0 end,
        r.absorbed_micro + case when open then 0 else r.charge_micro end, r.excess_micro, r.price_id, r.turns,
        r.attempts, r.error_code, r.flagged or not open, to_timestamp(r.opened_ms / 1000), r.first_token_ms, r.duration_ms,
        r.cost_micro, r.member, r.run_id
      from unnest(ended) r cross join lateral (
        select all_open or r.lease_id = any (coalesce(open_leases, '{}')) as open offset 0
      ) l
      on conflict (request_id, part) do nothing
      returning request_id, part, absorbed_micro, request_id < own_from as is_apart
    )
    select array_agg(request_id), array_agg(part), bool_or(is_apart or absorbed_micro > 0) into ids, parts, has_others from added;
    if cardinality(ids) = cardinality(ended) then
      fresh := ended;
    else
      fresh := array(select r from unnest(ended) r join unnest(ids, parts) a (id, part) on a.id = r.request_id and a.part = r.part);
    end if;

    -- 3. The transfers of what is new: what the house bears, and charges of calls that came before records were that.
    if has_others then
      insert into charges (amount_micro, request_id, account_id)
      select r.charge_micro, r.request_id, r.account_id from unnest(fresh) r
      cross join lateral (select all_open or r.lease_id = any (coalesce(open_leases, '{}')) as open offset 0) l
      where r.request_id < own_from and r.charge_micro > 0 and open
        -- What comes late may sort before what was proven, and then has to have an id of its own (prove_2).
        and not (to_timestamp(r.opened_ms / 1000) < now() - interval '1 hour' and exists (select from proofs));
      insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
      select t.name || r.request_id, t.debit, 'house:revenue', t.amount, t.reason
      from unnest(fresh) r
      cross join lateral (select all_open or r.lease_id = any (coalesce(open_leases, '{}')) as open offset 0) l
      cross join lateral (values
        ('charge:', r.account_id, case when open and r.request_id < own_from then r.charge_micro else 0 end, 'charge'),
        ('absorb:', 'house:absorbed', r.absorbed_micro + case when open then 0 else r.charge_micro end, 'absorbed')
      ) t (name, debit, amount, reason)
      where t.amount > 0 and (t.name <> 'charge:' or not exists (select from charges c where c.request_id = r.request_id));
    end if;

    -- 4. What came before: charges that are taken back, and what comes too late to be charged.
    for e in
      select r.* from unnest(ended) r
      where r.part = 0 and (r.voided or not all_open and not r.lease_id = any (coalesce(open_leases, '{}')))
      order by r.request_id
    loop
      -- By plans of its own, which lock the call's month alone: another may be on its way into a file.
      perform set_config('plan_cache_mode', 'force_custom_plan', true);
      select * into was from usage u where u.request_id = e.request_id and u.part = e.part for update;
      if e.voided and (was.charge_micro > 0 or was.absorbed_micro > 0) then
        perform take_back_1(e.request_id);
        insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
        select * from (values
          ('void:' || e.request_id, 'house:revenue', was.account_id, case when e.request_id < own_from then was.charge_micro else 0 end, 'void'),
          ('void-absorb:' || e.request_id, 'house:revenue', 'house:absorbed', was.absorbed_micro, 'void')
        ) t (name, debit, credit, amount, reason) where t.amount > 0;
        void_payers := void_payers || e.payer;
        void_amounts := void_amounts || -was.charge_micro;
      elsif not e.lease_id = any (coalesce(open_leases, '{}')) then
        -- A late record of a process whose calls were ended for it: the house bears what it cost, of the model that answered.
        -- What was booked in time stays, and what was borne once and then taken back is not borne again.
        if e.charge_micro + e.absorbed_micro > 0 and was.status = 'billing_error' and was.absorbed_micro = 0
          and not exists (select from transfers t where t.idempotency_key = any (array['absorb:' || e.request_id]))
        then
          update usage u set absorbed_micro = e.charge_micro + e.absorbed_micro, excess_micro = e.excess_micro,
            input_tokens = e.input_tokens, output_tokens = e.output_tokens, cache_read_tokens = e.cache_read_tokens,
            cache_write_tokens = e.cache_write_tokens, model = e.model, price_id = e.price_id, turns = e.turns,
            attempts = e.attempts, cost_micro = e.cost_micro, member = e.member
          where u.request_id = e.request_id and u.part = e.part;
          insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
          values ('absorb:' || e.request_id, 'house:absorbed', 'house:revenue', e.charge_micro + e.absorbed_micro, 'absorbed');
        end if;
        -- What an earlier sending of this batch has charged, while the lease was open, is charged.
        if e.charge_micro > 0 and was.charge_micro = 0 then
          return query select null::text, e.request_id;
        end if;
      end if;
    end loop;

    -- 5. The sums that change by it.
    changes := array(
      select (p.owner_kind, p.owner_id, l.lease_id, p.period, to_timestamp(p.period_start_ms / 1000), sum(d.amount)::bigint)::change_1
      from (
        select r.payer, r.charge_micro as amount from unnest(fresh) r
        where r.charge_micro > 0 and (all_open or r.lease_id = any (coalesce(open_leases, '{}')))
        union all
        select * from unnest(void_payers, void_amounts)
      ) d (payer, amount)
      join unnest(purses) p on p.payer = d.payer
      cross join lateral (
        select case when p.lease_id = any (coalesce(open_leases, '{}')) then p.lease_id end as lease_id
      ) l
      where d.amount <> 0
      group by p.owner_kind, p.owner_id, l.lease_id, p.period, p.period_start_ms
      order by p.owner_kind, p.owner_id, l.lease_id, p.period, p.period_start_ms
    );
    if cardinality(changes) > 0 then
      perform apply_1(process, changes);
    end if;
  end if;

  -- 6. Openings begin, but of calls that have ended, and end.
  if cardinality(opened) > 0 then
    insert into openings (request_id, process_id, account_id, key_id, lease_id, model, endpoint, streamed, hold_micro,
      price_id, opened_at)
    select o.request_id, process, o.account_id, o.key_id, o.lease_id, o.model, o.endpoint, o.streamed, o.hold_micro,
      o.price_id, to_timestamp(o.opened_ms / 1000)
    from unnest(opened) o
    where (select count(*) from usage u where u.request_id = o.request_id and u.part = final_part) = 0
    on conflict (request_id) do nothing;
  end if;
  if cardinality(ended) > 0 then
    delete from openings where request_id = any (array(select r.request_id from unnest(ended) r where r.part = 0));
  end if;
end $$;

-- As before, but for calls whose records are their charges: of those what came late or changed is in `call_changes`.
create or replace function prove_2(base bigint, everything boolean, before_call text, last_transfer bigint, seen pg_snapshot)
returns bigint language plpgsql security definer set search_path = public, pg_temp as $$
declare
  from_call text := '';
  from_transfer bigint := 0;
  made bigint;
  own_from text := (select until_call from charges_end);
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
  with found as materialized (
    select *, booked_in is null or pg_visible_in_snapshot(booked_in, seen) or booked_in >= pg_snapshot_xmax(pg_current_snapshot())
      as was_seen from call_changes
  ), changes as materialized (
    select * from found where not everything and request_id < from_call
  ), looked_at as (
    delete from call_changes where id in (select id from found where was_seen)
  ), not_looked_at as (
    update call_changes set charge_micro = 0 where id in (select id from found where not was_seen)
  ), accounts as (
    insert into proven_accounts (proof_id, account_id, amount_micro)
    select made, account, sum(amount) from (
      select account_id, amount_micro from proven_accounts where proof_id = base and not everything
      union all
      select m.account, m.amount from transfers t
      cross join lateral (values (t.credit_account, t.amount_micro), (t.debit_account, -t.amount_micro)) m (account, amount)
      where t.id > from_transfer and t.id <= last_transfer
      union all
      select m.account, m.amount from charges c
      cross join lateral (values ('house:revenue', c.amount_micro), (c.account_id, -c.amount_micro)) m (account, amount)
      where c.request_id >= from_call and c.request_id < before_call
      union all
      select m.account, m.amount from (
        select account_id, charge_micro from usage
        where request_id >= from_call and request_id < before_call and request_id >= own_from and charge_micro > 0
        union all select account_id, charge_micro from changes where request_id >= own_from
        union all select account_id, amount_micro from archived_charges where everything
      ) o cross join lateral (values ('house:revenue', o.charge_micro), (o.account_id, -o.charge_micro)) m (account, amount)
    ) moved (account, amount) group by account
  ), keys as (
    insert into proven_keys (proof_id, key_id, charge_micro)
    select made, key_id, sum(amount) from (
      select key_id, charge_micro from proven_keys where proof_id = base and not everything
      union all select key_id, charge_micro from archived_keys where everything
      union all select key_id, charge_micro from usage where request_id >= from_call and request_id < before_call
      union all select key_id, charge_micro from changes
    ) charged (key_id, amount) group by key_id
  )
  insert into proven_leases (proof_id, lease_id, charge_micro)
  select made, lease_id, sum(amount) from (
    select lease_id, charge_micro from proven_leases where proof_id = base and not everything
    union all select lease_id, charge_micro from archived_leases where everything
    union all select lease_id, charge_micro from usage where request_id >= from_call and request_id < before_call
    union all select lease_id, charge_micro from changes
  ) charged (lease_id, amount)
  where lease_id in (select id from leases where closed_at is null) group by lease_id;
  delete from proven_accounts where proof_id < made;
  delete from proven_keys where proof_id < made;
  delete from proven_leases where proof_id < made;
  return made;
end $$;
