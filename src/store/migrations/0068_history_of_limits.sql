-- What an account's history says of its limits: ceilings of ten minutes that are set, pauses and their ends. And what a dry run asks
-- of runs.

-- Of a key: with the row of what else has changed by the same act, if there is one (`note_key_event`, whose trigger comes before).
create function note_key_breaker_event() returns trigger language plpgsql as $$
declare
  was jsonb;
  is_now jsonb;
begin
  if new.prefix = '' then return null; end if;
  select jsonb_object_agg(o.key, o.value), jsonb_object_agg(n.key, n.value) into was, is_now
    from jsonb_each(to_jsonb(old)) o join jsonb_each(to_jsonb(new)) n using (key)
    where o.value is distinct from n.value and key in ('breaker_stops', 'breaker_pause_minutes');
  if is_now is not null then
    update account_events set before = before || was, after = after || is_now
      where account_id = new.account_id and action = 'key.changed' and subject = new.id and transaction = pg_current_xact_id()
        and id = (select max(id) from account_events where account_id = new.account_id);
    if not found then perform note_account_event(new.account_id, 'key.changed', new.id, new.name, was, is_now); end if;
  end if;
  if new.paused_at is not null and old.paused_at is distinct from new.paused_at then
    perform note_account_event(new.account_id, 'key.paused', new.id, new.name, by_whom => 'gateway',
      is_now => jsonb_build_object('until', new.paused_until));
  elsif new.paused_at is null and old.paused_at is not null and coalesce(old.paused_until > clock_timestamp(), true) then
    perform note_account_event(new.account_id, 'key.resumed', new.id, new.name);
  end if;
  return null;
end $$;
create trigger key_noted_breaker after update of breaker_stops, breaker_pause_minutes, paused_at on api_keys
  for each row when ((old.breaker_stops, old.breaker_pause_minutes, old.paused_at)
    is distinct from (new.breaker_stops, new.breaker_pause_minutes, new.paused_at))
  execute function note_key_breaker_event();

create function note_account_breaker_event() returns trigger language plpgsql as $$
declare
  was jsonb;
  is_now jsonb;
begin
  if new.email = new.id || '@deleted.invalid' then return null; end if;
  select jsonb_object_agg(o.key, o.value), jsonb_object_agg(n.key, n.value) into was, is_now
    from jsonb_each(to_jsonb(old)) o join jsonb_each(to_jsonb(new)) n using (key)
    where o.value is distinct from n.value
      and key in ('breaker_ceiling_micro', 'breaker_factor', 'breaker_stops', 'breaker_pause_minutes');
  if is_now is not null then
    perform note_account_event(new.id, 'breaker.changed', was => was, is_now => is_now);
  end if;
  if new.paused_at is not null and old.paused_at is distinct from new.paused_at then
    perform note_account_event(new.id, 'account.paused', by_whom => 'gateway',
      is_now => jsonb_build_object('until', new.paused_until));
  elsif new.paused_at is null and old.paused_at is not null and coalesce(old.paused_until > clock_timestamp(), true) then
    perform note_account_event(new.id, 'account.resumed');
  end if;
  return null;
end $$;
create trigger account_noted_breaker after update of breaker_ceiling_micro, breaker_factor, breaker_stops, breaker_pause_minutes, paused_at
  on accounts for each row when (
    (old.breaker_ceiling_micro, old.breaker_factor, old.breaker_stops, old.breaker_pause_minutes, old.paused_at)
      is distinct from (new.breaker_ceiling_micro, new.breaker_factor, new.breaker_stops, new.breaker_pause_minutes, new.paused_at))
  execute function note_account_breaker_event();

-- Whether an account may have one more run.
create function may_open_run_1(account text, made timestamptz, most_open integer, most_kept integer) returns boolean
language sql volatile as $$
  select (select count(*) from runs where account_id = account and ends_at > made) < most_open
    and (select count(*) from runs where account_id = account) < most_kept
$$;

create or replace function open_run_1(
  run text, account text, key text, called text, budget bigint, made timestamptz, ends timestamptz, most_open integer, most_kept integer
) returns boolean language plpgsql as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('loket:runs:' || account, 0));
  if exists (select from runs where id = run) then return true; end if;
  if not may_open_run_1(account, made, most_open, most_kept) then return false; end if;
  insert into runs (id, account_id, key_id, name, budget_micro, created_at, ends_at)
  values (run, account, key, called, budget, made, ends);
  return true;
end $$;
