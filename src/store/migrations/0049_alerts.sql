-- Where an account's events are posted to, signed as Standard Webhooks has it. The secret is kept as it is, because it signs.
create table webhooks (
  account_id text primary key references accounts,
  url text not null,
  secret text not null,
  -- The secret before, which signs too until then.
  former_secret text,
  former_until timestamptz,
  -- Since when nothing was taken; null after a delivery that was.
  failing_since timestamptz,
  disabled_at timestamptz,
  created_at timestamptz not null default now()
);

-- What is to be told, and was: written with the event that it tells of, in one statement. A mail is tried at most once, a webhook
-- until it is taken. `due_at` is when it is tried next; null once it is over.
create table outbox (
  id text primary key default 'msg_' || replace(gen_random_uuid()::text, '-', ''),
  account_id text not null references accounts,
  channel text not null check (channel in ('mail', 'webhook')),
  kind text not null,
  data jsonb not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  due_at timestamptz default now(),
  -- A process is at it until then.
  taken_until timestamptz,
  attempts integer not null default 0,
  tried_at timestamptz,
  outcome text check (outcome in ('sent', 'failed')),
  -- Of the last attempt: the HTTP status, or a word for why there was none.
  status integer,
  problem text
);
create index outbox_due on outbox (channel, due_at) where due_at is not null;
create index outbox_account on outbox (account_id, created_at);
create index outbox_over on outbox (created_at) where due_at is null;

-- Of a key's budget of one period, the highest threshold in percent that it has reached. `rose` is whether the last change was upwards.
create table budget_alerts (
  key_id text primary key references api_keys,
  period text not null,
  period_start timestamptz not null,
  reached integer not null,
  rose boolean not null
);

-- Whether the account is written to about its keys' budgets, at the address of the low balance.
alter table accounts add column budget_mails boolean not null default false;
