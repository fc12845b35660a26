-- A ceiling that stops: what a key, or all keys of an account, may spend within any ten minutes. Whoever passes it is paused: until
-- then, or until its owner resumes it.
alter table accounts add column breaker_stops boolean not null default false;
alter table accounts add column breaker_pause_minutes integer;
alter table accounts add column paused_at timestamptz;
alter table accounts add column paused_until timestamptz;
alter table api_keys add column breaker_stops boolean not null default false;
alter table api_keys add column breaker_pause_minutes integer;
alter table api_keys add column paused_at timestamptz;
alter table api_keys add column paused_until timestamptz;

-- Such a ceiling is leased and charged like a key's budget, in `key_spend` and `budget_leases`: a breaker's purse stands there in place
-- of a key, with the period `total`. Its id is `brk_` and the account's id, and for a key's a dot and the key's id.
alter table key_spend drop constraint if exists key_spend_key_id_fkey;

-- What was charged to a purse, by the minute in which it was booked, by the database's clock.
create table spending_minutes (
  purse text not null,
  minute timestamptz not null,
  spent_micro bigint not null,
  primary key (purse, minute)
);

-- What is taken back later stays counted: the ceiling then holds for less than it might, never for more.
create function add_spending_minute() returns trigger language plpgsql as $$
begin
  insert into spending_minutes as m (purse, minute, spent_micro)
  values (new.key_id, date_trunc('minute', clock_timestamp()), new.spent_micro - old.spent_micro)
  on conflict (purse, minute) do update set spent_micro = m.spent_micro + excluded.spent_micro;
  return null;
end $$;
create trigger breaker_charged after update on key_spend
  for each row when (new.key_id like 'brk\_%' and new.spent_micro > old.spent_micro) execute function add_spending_minute();

-- A minute counts until ten minutes after its end, so no ten minutes are ever missed.
create function spent_lately(of_purse text) returns bigint volatile language sql as $$
  select coalesce(sum(spent_micro), 0)::bigint from spending_minutes
  where purse = of_purse and minute > clock_timestamp() - interval '11 minutes'
$$;

-- Grows a process's lease on a purse, as leases of accounts and budgets grow; in steps, because what a lock was waited for is seen
-- only by the next statement. Nothing is returned to a process that was closed by another.
create function grow_breaker_1(process text, of_purse text, account text, key text, short bigint, known integer)
returns table (granted_micro bigint, returned_micro bigint, settled_micro bigint, version integer, more boolean) language plpgsql as $$
declare
  ceiling bigint;
  leased bigint;
  free bigint;
  amount bigint := 0;
  lease budget_leases;
  is_shared boolean;
begin
  perform from processes p where p.id = process and p.closed_at is null for share;
  if not found then return; end if;
  insert into key_spend (key_id, period, period_start, spent_micro) values (of_purse, 'total', to_timestamp(0), 0) on conflict do nothing;
  insert into budget_leases as b (key_id, period, period_start, process_id, granted_micro)
  values (of_purse, 'total', to_timestamp(0), process, 0) on conflict do nothing;
  -- The lease before what it is a part of, as settling and closing do.
  perform from budget_leases b where b.key_id = of_purse and b.process_id = process for update;
  select s.leased_micro into leased from key_spend s
    where s.key_id = of_purse and s.period = 'total' and s.period_start = to_timestamp(0) for update;
  select * into lease from budget_leases b where b.key_id = of_purse and b.process_id = process;
  if key is null then
    select a.breaker_ceiling_micro into ceiling from accounts a where a.id = account and a.breaker_stops;
  else
    select k.breaker_ceiling_micro into ceiling from api_keys k where k.id = key and k.account_id = account and k.breaker_stops;
  end if;
  -- Without a ceiling there is nothing to keep from others: it was taken away a moment ago.
  free := case when ceiling is null then short else greatest(0, ceiling - spent_lately(of_purse) - leased) end;
  is_shared := exists (select from processes p where p.id <> process and p.closed_at is null);
  if lease.version = known then
    amount := case when is_shared then least(free, greatest(short, free / 2)) else free end;
  end if;
  update budget_leases b set granted_micro = b.granted_micro + amount, version = b.version + 1
    where b.key_id = of_purse and b.process_id = process returning * into lease;
  if amount > 0 then
    update key_spend s set leased_micro = s.leased_micro + amount
      where s.key_id = of_purse and s.period = 'total' and s.period_start = to_timestamp(0);
  end if;
  more := exists (select from budget_leases b where b.key_id = of_purse and b.process_id <> process
    and b.granted_micro > b.returned_micro + b.settled_micro);
  if more and lease.version = known + 1 and short > amount then
    perform pg_notify('loket', concat_ws(' ', 'short breaker', of_purse, process, short - amount));
  end if;
  return query select lease.granted_micro, lease.returned_micro, lease.settled_micro, lease.version, more or free > amount;
end $$;

-- A call that needs so much was refused by a purse. Pauses its key or its account, unless there would be room for the call once those
-- under way have ended; tells the owner once. True when it is paused.
create function trip_breaker_1(of_purse text, account text, key text, least_micro bigint, sends_mail boolean) returns boolean
language plpgsql as $$
declare
  ceiling bigint;
  minutes integer;
  called text;
  was_until timestamptz;
  was_paused boolean;
  spent bigint;
  ends timestamptz;
begin
  if key is null then
    select a.breaker_ceiling_micro, a.breaker_pause_minutes, a.paused_at is not null, a.paused_until
      into ceiling, minutes, was_paused, was_until
      from accounts a where a.id = account and a.breaker_stops and a.deleted_at is null for no key update;
  else
    select k.breaker_ceiling_micro, k.breaker_pause_minutes, k.paused_at is not null, k.paused_until, k.name
      into ceiling, minutes, was_paused, was_until, called
      from api_keys k where k.id = key and k.account_id = account and k.breaker_stops for no key update;
  end if;
  if ceiling is null then return false; end if;
  if was_paused and coalesce(was_until > clock_timestamp(), true) then return true; end if;
  spent := spent_lately(of_purse);
  if ceiling - spent >= least_micro then return false; end if;
  ends := clock_timestamp() + make_interval(mins => minutes);
  if key is null then
    update accounts set paused_at = clock_timestamp(), paused_until = ends where id = account;
  else
    update api_keys set paused_at = clock_timestamp(), paused_until = ends where id = key;
  end if;
  perform pg_notify('loket', 'changed account ' || account);
  insert into outbox (account_id, channel, kind, expires_at, data)
  select account, channel, 'key.paused', now() + lasts, jsonb_build_object('key_id', key, 'key_name', called, 'spent_micro', spent,
    'ceiling_micro', ceiling, 'until', ends)
  from (values ('mail', interval '1 day'), ('webhook', interval '5 days')) as expiry (channel, lasts)
  where case channel when 'mail' then sends_mail and exists (select from accounts a where a.id = account and not a.email_unproved)
      else exists (select from webhooks w where w.account_id = account and w.disabled_at is null) end
    and (select count(*) from outbox o where o.account_id = account and o.created_at > now() - interval '1 day') < 5000;
  return true;
end $$;

-- What calls are told by: a ceiling, a pause. A key's own are told with whatever changes of it.
create trigger account_breaker_changed after update on accounts for each row when (
    (old.breaker_stops, old.breaker_ceiling_micro, old.paused_at, old.paused_until)
      is distinct from (new.breaker_stops, new.breaker_ceiling_micro, new.paused_at, new.paused_until))
  execute function notify_account_changed();

create function notify_breaker_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('loket', 'changed breaker brk_' || case tg_table_name when 'accounts' then new.id
    else to_jsonb(new) ->> 'account_id' || '.' || new.id end);
  return null;
end $$;
create trigger account_ceiling_changed after update on accounts for each row when (
    (old.breaker_stops, old.breaker_ceiling_micro) is distinct from (new.breaker_stops, new.breaker_ceiling_micro))
  execute function notify_breaker_changed();
create trigger key_ceiling_changed after update on api_keys for each row when (
    (old.breaker_stops, old.breaker_ceiling_micro) is distinct from (new.breaker_stops, new.breaker_ceiling_micro))
  execute function notify_breaker_changed();

-- Whoever does not know of a purse's kind passes over what is said of it.
create or replace function notify_budget_freed() returns trigger language plpgsql as $$
begin
  if new.key_id like 'brk\_%' then
    perform pg_notify('loket', 'freed breaker ' || new.key_id);
  elsif new.key_id like 'run\_%' then
    perform pg_notify('loket', 'freed run ' || new.key_id);
  else
    perform pg_notify('loket', 'freed key ' || encode(key_hash, 'hex')) from api_keys where id = new.key_id;
  end if;
  return null;
end $$;
