-- Networks from which somebody signed in to an account with its password: a crowd of others does not slow them down. The
-- store keeps a few of each account.
create table account_networks (
  account_id text not null references accounts,
  network text not null,
  signed_in_at timestamptz not null default now(),
  primary key (account_id, network)
);
-- Of IPv6 the program knows what a network is.
insert into account_networks (account_id, network, signed_in_at)
  select account_id, address, max(last_seen_at) from sessions
  where address <> '' and address not like '%:%' group by account_id, address;

-- Accounts that were made from a network, since the first of the hour and of the day.
create table sign_ups (
  network text primary key,
  hour_began_at timestamptz not null default now(),
  hour_count integer not null default 1,
  day_began_at timestamptz not null default now(),
  day_count integer not null default 1
);
create index sign_ups_day on sign_ups (day_began_at);

-- An account has only so many keys that work, and makes only so many a day.
create index api_keys_active on api_keys (account_id) where revoked_at is null;

-- Why the account may not make this key now, null where it may. The row's lock makes one caller after the other count, and
-- each statement of a function sees what was committed before it: a count in the statement that inserts would not.
create function key_refusal(account text, key text, most_active integer, most_a_day integer)
returns text language plpgsql volatile as $$
declare
  frozen boolean;
begin
  select frozen_at is not null into frozen from accounts where id = account for no key update;
  if exists (select from api_keys where id = key) then return 'made before'; end if;
  if frozen then return 'frozen'; end if;
  if (select count(*) from api_keys where account_id = account and revoked_at is null) >= most_active then
    return 'too many';
  end if;
  if (select count(*) from api_keys where account_id = account and created_at > now() - interval '1 day') >= most_a_day then
    return 'too many today';
  end if;
  return null;
end $$;

-- A revoked key is refused as such before anything is asked of its account, and there may be any number of them.
create or replace function notify_account_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('loket', 'changed key ' || encode(key_hash, 'hex')) from api_keys
    where account_id = new.id and revoked_at is null;
  return null;
end $$;
