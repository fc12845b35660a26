-- Passkeys of an account (WebAuthn credentials): the public half alone.
create table passkeys (
  id text primary key,
  account_id text not null references accounts,
  -- An account has ten at most, whatever is added at once.
  place smallint not null check (place between 1 and 10),
  credential_id bytea not null unique,
  public_key bytea not null,
  -- How often the device says that it has signed; zero where it does not count.
  counter bigint not null,
  -- How browsers reach the device, as it said.
  transports text[] not null,
  name text not null,
  created_at timestamptz not null default now(),
  last_used_at timestamptz,
  unique (account_id, place)
);

-- What a device is to sign, once. Bound to the session or to the sign-in that asked, by the hash of its token; empty where
-- nobody is signed in yet.
create table passkey_challenges (
  challenge bytea primary key,
  purpose text not null,
  bound_to bytea not null,
  expires_at timestamptz not null
);
create index passkey_challenges_bound on passkey_challenges (bound_to, expires_at);
create index passkey_challenges_over on passkey_challenges (expires_at);
