-- The pages that may call with a key from a browser, by their origins. Null is none: CORS is off.
alter table api_keys add column origins text[];
alter table api_keys add constraint bound_origins check (cardinality(origins) between 1 and 16) not valid;

-- Processes have all origins in memory, and read them anew.
create function notify_origins_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('loket', 'changed origins');
  return null;
end $$;
create trigger key_origins_made after insert on api_keys
  for each row when (new.origins is not null) execute function notify_origins_changed();
create trigger key_origins_changed after update of origins, revoked_at on api_keys
  for each row when (old.origins is not null or new.origins is not null) execute function notify_origins_changed();

-- With `origins` among what an account's history shows.
create or replace function note_key_event() returns trigger language plpgsql as $$
declare
  shown text[] := '{name,requests_per_minute,tokens_per_minute,spending_limit_micro,spending_period,fallback,shows_balance,expires_at,models,endpoints,networks,origins,max_rate_micro,breaker_ceiling_micro}';
  kind text := case when new.parent_id is null then 'key' else 'child_key' end;
  parent jsonb := case when new.parent_id is not null then jsonb_build_object('parent', new.parent_id) end;
  was jsonb;
  is_now jsonb;
begin
  if tg_op = 'INSERT' then
    perform note_account_event(new.account_id, kind || '.created', new.id, new.name, null, parent);
    return null;
  end if;
  -- What takes the names of keys away is no act on the account.
  if new.prefix = '' then return null; end if;
  if old.revoked_at is null and new.revoked_at is not null then
    perform note_account_event(new.account_id, kind || '.revoked', new.id, new.name, null, parent);
  end if;
  if (old.prefix, old.last4) is distinct from (new.prefix, new.last4) then
    perform note_account_event(new.account_id, 'key.rotated', new.id, new.name);
  end if;
  select jsonb_object_agg(o.key, o.value), jsonb_object_agg(n.key, n.value) into was, is_now
    from jsonb_each(to_jsonb(old)) o join jsonb_each(to_jsonb(new)) n using (key)
    where o.value is distinct from n.value and key = any (shown);
  if is_now is not null then
    perform note_account_event(new.account_id, kind || '.changed', new.id, new.name, was, is_now || coalesce(parent, '{}'));
  end if;
  return null;
end $$;
