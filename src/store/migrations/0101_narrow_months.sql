-- Unused since 0100 is the index of an account's calls by whole ids, and since 0075 are months that have no record yet: those are made anew.
--
-- Columns of one length stand together in a month, the longest first, so that no row has gaps: 16 bytes a call. Ids come in order, and so each page of
-- their index is filled: 6 bytes.
create function make_narrow_1(name text, whole text) returns void language plpgsql set search_path = public, pg_temp as $$
declare
  rule record;
begin
  execute (
    select format('create table %I (%s)', name, string_agg(format('%I %s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
      ' default ' || pg_get_expr(d.adbin, d.adrelid), case when a.attnotnull then ' not null' end), ', ' order by a.attlen < 0, a.attlen desc, a.attnum))
    from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attrelid = whole::regclass and a.attnum > 0 and not a.attisdropped);
  for rule in
    select conname, contype, pg_get_constraintdef(oid) as definition from pg_constraint where conrelid = whole::regclass and contype in ('c', 'p')
  loop
    execute format('alter table %I add constraint %I %s %s', name, case rule.contype when 'p' then name || '_pkey' else rule.conname end, rule.definition,
      case rule.contype when 'p' then 'with (fillfactor = 100)' end);
  end loop;
end $$;

-- As before, but for the columns' order.
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
      if whole = 'usage' then
        perform make_narrow_1(name, whole);
      else
        execute format('create table %I (like %I including defaults including constraints)', name, whole);
      end if;
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

drop index usage_account;
select set_config('enable_seqscan', 'off', true), set_config('enable_indexonlyscan', 'on', true), set_config('enable_indexscan', 'on', true);
do $$
declare
  month text;
  newest text;
begin
  lock table usage in access exclusive mode;
  for month in
    select i.inhrelid::regclass::text from pg_inherits i where i.inhparent = 'usage'::regclass and i.inhrelid::regclass::text ~ '^usage_\d{4}_\d{2}$'
  loop
    execute format('select request_id from %I order by request_id desc limit 1', month) into newest;
    if newest is null then
      execute format('drop table %I', month);
    end if;
  end loop;
end $$;
select make_months_1();
