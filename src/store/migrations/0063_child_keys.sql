-- Children of a key: keys of the same account whose calls count in the windows, the budget and the ceiling of their parent too. A parent
-- stays what it is, and a child has no children, so the column is written once.
alter table api_keys add column parent_id text;
alter table api_keys add constraint parent foreign key (parent_id) references api_keys not valid;

-- What makes children of a key, and makes no calls. Of its secret the hash is kept; whoever revokes one removes its row.
create table management_tokens (
  id text primary key check (id like 'mgt\_%'),
  account_id text not null references accounts,
  key_id text not null references api_keys,
  name text not null,
  token_hash bytea not null unique,
  prefix text not null,
  last4 text not null,
  created_at timestamptz not null default now()
);
create index management_tokens_key on management_tokens (key_id, created_at);
create index management_tokens_account on management_tokens (account_id);

-- Why a token may not be made of this key now, null where it may. Who comes second waits for the first, and counts it.
create function token_refusal_1(account text, key text, token text, most integer) returns text language plpgsql volatile as $$
declare
  parent api_keys;
begin
  select * into parent from api_keys where id = key and account_id = account for no key update;
  if not found then return 'no key'; end if;
  if exists (select from management_tokens where id = token) then return 'made before'; end if;
  if parent.parent_id is not null then return 'child'; end if;
  if parent.revoked_at is not null then return 'revoked'; end if;
  if exists (select from accounts where id = account and deleted_at is not null) then return 'no key'; end if;
  if exists (select from accounts where id = account and frozen_at is not null) then return 'frozen'; end if;
  if (select count(*) from management_tokens where key_id = key) >= most then return 'too many'; end if;
  return null;
end $$;

-- The same of a child. `most_of_key` and `most_of_account` work, and so many are made in a day: revoked ones stay as rows.
create function child_refusal_1(
  account text, parent text, key text, most_of_key integer, most_of_account integer, most_a_day integer
) returns text language plpgsql volatile as $$
declare
  frozen boolean;
begin
  select frozen_at is not null into frozen from accounts where id = account for no key update;
  if exists (select from api_keys where id = key) then return 'made before'; end if;
  if frozen then return 'frozen'; end if;
  if not exists (
    select from api_keys where id = parent and account_id = account and parent_id is null and revoked_at is null
  ) then
    return 'no parent';
  end if;
  if (select count(*) from api_keys where parent_id = parent and revoked_at is null) >= most_of_key
    or (select count(*) from api_keys k where k.account_id = account and k.parent_id is not null and k.revoked_at is null
      and not exists (select from api_keys p where p.id = k.parent_id and p.revoked_at is not null)) >= most_of_account
  then
    return 'too many';
  end if;
  if (select count(*) from api_keys where account_id = account and parent_id is not null
    and created_at > now() - interval '1 day') >= most_a_day
  then
    return 'too many today';
  end if;
  return null;
end $$;

-- As before, of keys that are nobody's children: those have bounds of their own.
create or replace function key_refusal(account text, key text, most_active integer, most_a_day integer)
returns text language plpgsql volatile as $$
declare
  frozen boolean;
begin
  select frozen_at is not null into frozen from accounts where id = account for no key update;
  if exists (select from api_keys where id = key) then return 'made before'; end if;
  if frozen then return 'frozen'; end if;
  if (select count(*) from api_keys where account_id = account and parent_id is null and revoked_at is null) >= most_active then
    return 'too many';
  end if;
  if (select count(*) from api_keys where account_id = account and parent_id is null
    and created_at > now() - interval '1 day') >= most_a_day
  then
    return 'too many today';
  end if;
  return null;
end $$;

-- What is done with a management token is told apart from what an owner does. The token is named for the transaction alone.
alter table account_events add column token_id text;

create function note_token_of_event() returns trigger language plpgsql as $$
begin
  new.token_id := nullif(current_setting('loket.management_token', true), '');
  return new;
end $$;
create trigger event_by_token before insert on account_events for each row execute function note_token_of_event();

create or replace function note_key_event() returns trigger language plpgsql as $$
declare
  shown text[] := '{name,requests_per_minute,tokens_per_minute,spending_limit_micro,spending_period,fallback,shows_balance,expires_at,models,endpoints,networks,max_rate_micro,breaker_ceiling_micro}';
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

create function note_management_token_event() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' then
    perform note_account_event(old.account_id, 'management_token.revoked', old.id, old.name, jsonb_build_object('key_id', old.key_id));
  else
    perform note_account_event(new.account_id, 'management_token.created', new.id, new.name, null, jsonb_build_object('key_id', new.key_id));
  end if;
  return null;
end $$;
create trigger management_token_noted after insert or delete on management_tokens
  for each row execute function note_management_token_event();
