-- Unused since 0073 is the table by itself: its name is the partitioned one's, whose first partition it is.
--
-- Records in months, by the time that their request ids begin with. What is asked by request id, or by a range of ids, looks into its
-- months alone. A call never fails for a missing month: what has none is in `usage_other`, and is found like the rest.
select set_config('enable_seqscan', 'off', true), set_config('enable_indexonlyscan', 'on', true), set_config('enable_indexscan', 'on', true);
do $$
declare
  indexes text[] := array(
    select pg_get_indexdef(i.indexrelid) from pg_index i where i.indrelid = 'usage'::regclass
      and not exists (select from pg_constraint c where c.conindid = i.indexrelid) order by i.indexrelid);
  triggers text[] := array(
    select pg_get_triggerdef(t.oid) from pg_trigger t where t.tgrelid = 'usage'::regclass and not t.tgisinternal order by t.tgname);
  grants aclitem[];
  "owner" text;
  is_empty boolean;
  bound text;
  name text;
  granted record;
begin
  lock table usage in access exclusive mode;
  is_empty := (select request_id from usage order by request_id limit 1) is null;
  bound := (
    select substring(pg_get_constraintdef(oid) from '''(req_[^'']*)''') from pg_constraint
    where conrelid = 'usage'::regclass and conname = 'usage_bound');
  select c.relacl, c.relowner::regrole into grants, "owner" from pg_class c where c.oid = 'usage'::regclass;

  alter table usage rename to usage_before;
  for name in select i.indexrelid::regclass from pg_index i where i.indrelid = 'usage_before'::regclass loop
    execute format('alter index %s rename to %I', name, 'before_' || name);
  end loop;
  for name in select tgname from pg_trigger t where t.tgrelid = 'usage_before'::regclass and not t.tgisinternal loop
    execute format('drop trigger %I on usage_before', name);
  end loop;

  create table usage (like usage_before including defaults including constraints, primary key (request_id, part))
    partition by range (request_id);
  alter table usage drop constraint usage_bound;
  execute format('alter table usage owner to %s', "owner");
  for granted in select grantee::regrole as who, privilege_type as what from aclexplode(grants) loop
    execute format('grant %s on usage to %s', granted.what, granted.who);
    execute format('revoke %s on usage_before from %s', granted.what, granted.who);
  end loop;
  if is_empty then
    drop table usage_before;
    bound := first_call(date_trunc('month', now(), 'UTC'));
    execute format('create table usage_before partition of usage for values from (minvalue) to (%L)', bound);
  end if;
  foreach name in array indexes loop
    execute name;
  end loop;
  foreach name in array triggers loop
    execute name;
  end loop;
  if not is_empty then
    execute format('alter table usage attach partition usage_before for values from (minvalue) to (%L)', bound);
    alter table usage_before drop constraint usage_bound;
  end if;
  create table usage_other partition of usage default;
end $$;

-- Makes the months that are to come. Of a month of which there are records in `usage_other` already all go there, since they would
-- have to be moved. Who runs a gateway may not make tables, and so the owner's rights are used; partitions are written through their
-- table alone. Nothing where another session is at it. Waits for whoever reads all months no longer than calls may wait behind it.
create function make_months_1() returns text[] language plpgsql security definer
set search_path = public, pg_temp set lock_timeout = '100ms' as $$
declare
  since timestamptz;
  name text;
  begins text;
  ends text;
  granted record;
  was_there boolean;
  -- Of the table that was there before there were months.
  bound text := (
    select substring(pg_get_expr(relpartbound, oid) from 'TO \(''([^'']*)''') from pg_class where oid = to_regclass('usage_before')
      and relispartition);
  made text[] := '{}';
begin
  if not pg_try_advisory_xact_lock(hashtextextended('loket:months', 0)) then
    return made;
  end if;
  -- It is read whole for each month, while calls wait.
  if pg_relation_size('usage_other') > 100000000 then
    return made;
  end if;
  for since in
    select (date_trunc('month', now() at time zone 'UTC') + n * interval '1 month') at time zone 'UTC' from generate_series(0, 3) n
  loop
    name := 'usage_' || to_char(since at time zone 'UTC', 'YYYY_MM');
    begins := greatest(first_call(since), bound);
    ends := first_call((since at time zone 'UTC' + interval '1 month') at time zone 'UTC');
    continue when to_regclass(name) is not null or begins >= ends;
    select exists (select from usage_other where request_id >= begins and request_id < ends) into was_there;
    continue when was_there;
    execute format('create table %I (like usage including defaults including constraints)', name);
    for granted in
      select distinct a.grantee::regrole as who from pg_class c, aclexplode(c.relacl) a
      where c.oid = name::regclass and a.grantee not in (0, c.relowner)
    loop
      execute format('revoke all on %I from %s', name, granted.who);
    end loop;
    execute format('alter table usage attach partition %I for values from (%L) to (%L)', name, begins, ends);
    made := made || name;
  end loop;
  return made;
end $$;
select make_months_1();
