-- What spending within ten minutes its owner is warned of: more than a ceiling, or more than so many times the usual of that hour of
-- the week, which is on unless it is turned off.
alter table accounts add column breaker_ceiling_micro bigint;
alter table accounts add column breaker_factor integer default 10;
alter table api_keys add column breaker_ceiling_micro bigint;

-- The last time that an account's spending, or a key's, was more: from `since` to `last_at`. Told once.
create table spending_alerts (
  -- Of the key, or of the account.
  owner_id text primary key,
  account_id text not null references accounts,
  key_id text references api_keys,
  why text not null check (why in ('ceiling', 'usual')),
  since timestamptz not null default now(),
  last_at timestamptz not null default now(),
  -- The most within ten minutes, and what it was measured by.
  spent_micro bigint not null,
  threshold_micro bigint not null,
  dismissed boolean not null default false
);
create index spending_alerts_account on spending_alerts (account_id);
