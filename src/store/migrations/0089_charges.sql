-- What calls were charged, in a table of its own, in the months of `usage`: from the call's account to house:revenue, once for each call.
-- It is a transfer like others, and says no more than a charge needs. All that few calls have is in `transfers` as before: what the house
-- bore, what was taken back, what came late; and the charges that were booked there before this table was.
create table charges (
  amount_micro bigint not null check (amount_micro > 0),
  request_id text primary key,
  account_id text not null
) partition by range (request_id);
create trigger charges_are_final before update or delete on charges for each row execute function forbid_change();

-- When the call of a request id came: the milliseconds that its first nine digits are.
create function call_at(call text) returns timestamptz language sql immutable as $$
  select to_timestamp(sum((position(substr(call, 4 + n, 1) in '0123456789abcdefghijklmnopqrstuvwxyz') - 1) * 36::numeric ^ (9 - n))::float8 / 1000)
  from generate_series(1, 9) n
$$;
-- All transfers. A charge of the table above has no id of its own, and a time that is its call's.
create view all_transfers as
select id, idempotency_key, debit_account, credit_account, amount_micro, reason, created_at, null::text as request_id from transfers
union all
select null, 'charge:' || request_id, account_id, 'house:revenue', amount_micro, 'charge', call_at(request_id), request_id from charges;

-- The months that `usage` has; before them is nothing, but in a database that was copied from another one. An account's charges are found
-- by its records. Where those are archived, and so before all months too, there is an index (src/store/charges.ts).
do $$
declare
  month record;
  since text := (
    select min(substring(pg_get_expr(c.relpartbound, c.oid) from 'FROM \(''([^'']*)''')) from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'usage'::regclass);
begin
  if since is null then
    since := first_call(date_trunc('month', now(), 'UTC'));
  end if;
  execute format('create table charges_before partition of charges for values from (minvalue) to (%L)', since);
  create table charges_other partition of charges default;
  create index on charges_before (account_id, request_id);
  create index on charges_other (account_id, request_id);
  for month in
    select c.relname as name, pg_get_expr(c.relpartbound, c.oid) as bounds from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'usage'::regclass and pg_get_expr(c.relpartbound, c.oid) like 'FOR VALUES FROM (''%'
  loop
    execute format('create table %I partition of charges %s', 'charges' || substr(month.name, length('usage') + 1), month.bounds);
  end loop;
end $$;

-- Whoever may read and write transfers may do so here, and no more than that. Partitions are written through their table alone.
do $$
declare
  granted record;
begin
  for granted in
    select c.oid::regclass as of, a.grantee::regrole as who from pg_class c, aclexplode(c.relacl) a
    where (c.oid in ('charges'::regclass, 'all_transfers'::regclass)
      or c.oid in (select inhrelid from pg_inherits where inhparent = 'charges'::regclass)) and a.grantee not in (0, c.relowner)
    group by 1, 2
  loop
    execute format('revoke all on %s from %s', granted.of, granted.who);
  end loop;
  for granted in
    select a.grantee::regrole as who, a.privilege_type as what from pg_class c, aclexplode(c.relacl) a
    where c.oid = 'transfers'::regclass and a.grantee not in (0, c.relowner)
  loop
    execute format('grant %s on charges to %s', granted.what, granted.who);
    if granted.what = 'SELECT' then
      execute format('grant select on all_transfers to %s', granted.who);
    end if;
  end loop;
end $$;

-- As before, for both tables: a month of records has one of charges. The records' table comes first, as it does for whoever books.
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

-- A reconciliation of a version before this one adds up `transfers` alone, and would freeze whoever has called since. It fails instead.
-- Whoever reads all says so by the name of its process, which is empty for a command: a process may take over another's reconciliation.
alter table reconciliations add column charges_read_by text;
create function freeze_by_whole_books() returns trigger language plpgsql as $$
begin
  if exists (
    select from reconciliations r
    where r.charges_read_by is distinct from coalesce(r.process_id, '') and new.frozen_reason like 'reconciliation ' || r.id || ': %'
  ) then
    raise exception 'a newer version keeps the books, and % did not read all of them', split_part(new.frozen_reason, ':', 1);
  end if;
  return new;
end $$;
create trigger accounts_are_frozen_by_whole_books before update of frozen_at on accounts for each row
  when (old.frozen_at is null and new.frozen_reason like 'reconciliation %') execute function freeze_by_whole_books();
