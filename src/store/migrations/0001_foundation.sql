-- Money is in micro-rupiah (1 Rp = 1,000,000), always bigint. Times are timestamptz.

create table accounts (
  id text primary key check (id like 'acc\_%'),
  email text not null,
  password_hash text not null,
  role text not null default 'customer' check (role in ('customer', 'operator')),
  time_zone text not null default 'Asia/Jakarta',
  created_at timestamptz not null default now(),
  deleted_at timestamptz
);
-- A deleted account frees its address.
create unique index accounts_email on accounts (lower(email)) where deleted_at is null;

create table sessions (
  token_hash bytea primary key,
  account_id text not null references accounts,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index sessions_account on sessions (account_id);

create table api_keys (
  id text primary key check (id like 'key\_%'),
  account_id text not null references accounts,
  name text not null,
  key_hash bytea not null unique,
  prefix text not null,
  last4 text not null,
  requests_per_minute integer check (requests_per_minute > 0),
  tokens_per_minute integer check (tokens_per_minute > 0),
  spending_limit_micro bigint check (spending_limit_micro >= 0),
  spending_period text check (spending_period in ('daily', 'monthly', 'total')),
  created_at timestamptz not null default now(),
  revoked_at timestamptz,
  check ((spending_limit_micro is null) = (spending_period is null))
);
create index api_keys_account on api_keys (account_id, created_at);

-- What a key has spent in one calendar period of its account's time zone: its budget's settled part.
create table key_spend (
  key_id text not null references api_keys,
  period text not null check (period in ('daily', 'monthly', 'total')),
  period_start timestamptz not null,
  spent_micro bigint not null,
  primary key (key_id, period, period_start)
);

-- A customer's balance: the sum of its transfers, and how much of it is leased to gateway processes.
create table balances (
  account_id text primary key references accounts,
  posted_micro bigint not null default 0,
  leased_micro bigint not null default 0,
  check (leased_micro >= 0 and leased_micro <= posted_micro)
);

-- Double entry: one row moves amount_micro from debit_account to credit_account. Rows are never changed.
-- House accounts: house:cash_clearing, house:revenue, house:absorbed, house:adjustments.
create table transfers (
  id bigint generated always as identity primary key,
  idempotency_key text not null unique,
  debit_account text not null,
  credit_account text not null,
  amount_micro bigint not null check (amount_micro > 0),
  reason text not null,
  created_at timestamptz not null default now(),
  check (debit_account <> credit_account)
);
create index transfers_debit on transfers (debit_account, id);
create index transfers_credit on transfers (credit_account, id);

create function forbid_change() returns trigger language plpgsql as $$
begin
  raise exception '% rows are never changed', tg_table_name;
end $$;
create trigger transfers_are_final before update or delete on transfers
  for each row execute function forbid_change();

-- A gateway process. A row that is closed is fenced: it can neither lease nor settle any more.
create table processes (
  id text primary key,
  started_at timestamptz not null default now(),
  closed_at timestamptz
);

-- What one process may spend of one account without asking again. The id is the lease's epoch: it only grows, and a
-- settlement under a lease that is no longer open moves no money of the customer.
create table leases (
  id bigint generated always as identity primary key,
  account_id text not null references balances,
  process_id text not null references processes,
  granted_micro bigint not null,
  settled_micro bigint not null default 0,
  opened_at timestamptz not null default now(),
  closed_at timestamptz,
  check (settled_micro >= 0 and settled_micro <= granted_micro)
);
create unique index leases_open on leases (account_id, process_id) where closed_at is null;
create index leases_process on leases (process_id) where closed_at is null;

-- A call that was forwarded and has no final usage record yet.
create table openings (
  request_id text primary key,
  process_id text not null,
  account_id text not null,
  key_id text not null,
  lease_id bigint not null,
  model text not null,
  endpoint text not null,
  streamed boolean not null,
  hold_micro bigint not null check (hold_micro >= 0),
  price_id bigint not null,
  opened_at timestamptz not null
);
create index openings_process on openings (process_id);

-- Part 0 is the final record of a call; parts 1, 2, … are the zero-charge markers of its reroutes.
create table usage (
  request_id text not null,
  part smallint not null,
  account_id text not null,
  key_id text not null,
  lease_id bigint not null,
  model text not null,
  endpoint text not null,
  streamed boolean not null,
  status text not null check (status in ('ok', 'upstream_error', 'aborted_stream', 'usage_missing', 'billing_error',
    'fallback_429', 'fallback_oversize')),
  input_tokens bigint not null check (input_tokens >= 0),
  output_tokens bigint not null check (output_tokens >= 0),
  cache_read_tokens bigint not null check (cache_read_tokens >= 0),
  cache_write_tokens bigint not null check (cache_write_tokens >= 0),
  charge_micro bigint not null check (charge_micro >= 0),
  -- What the tokens cost over the charge; the house bears it.
  absorbed_micro bigint not null check (absorbed_micro >= 0),
  price_id bigint not null,
  turns integer not null check (turns >= 1),
  attempts integer not null check (attempts >= 0),
  -- The failure told to the client, if there was one.
  error_code text,
  -- Needs the operator's eye: unreadable counts, or bookkeeping that failed.
  flagged boolean not null,
  opened_at timestamptz not null,
  first_token_ms integer,
  duration_ms integer not null,
  primary key (request_id, part),
  check (status = 'ok' or charge_micro = 0)
);
create index usage_account on usage (account_id, request_id desc) where part = 0;
create index usage_key on usage (key_id, opened_at) where part = 0;
create index usage_flagged on usage (request_id) where flagged;

create table top_ups (
  id text primary key check (id like 'top\_%'),
  account_id text not null references accounts,
  provider text not null,
  status text not null default 'pending' check (status in ('pending', 'paid', 'expired')),
  balance_purchased_micro bigint not null check (balance_purchased_micro > 0),
  service_fee_micro bigint not null check (service_fee_micro >= 0),
  payment_fee_micro bigint not null check (payment_fee_micro >= 0),
  network_fee_micro bigint not null check (network_fee_micro >= 0),
  qr_payload text not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  paid_at timestamptz
);
create index top_ups_account on top_ups (account_id, created_at desc);

-- The catalogue: what is sold, and where each model's backend is.
create table models (
  model text primary key,
  position integer not null,
  display_name text not null,
  tier text not null,
  provider text not null,
  modality text not null,
  supports_vision boolean not null,
  supports_tools boolean not null,
  context_window integer check (context_window > 0),
  max_output_tokens integer not null check (max_output_tokens > 0),
  endpoints text[] not null,
  upstream_provider text not null,
  upstream_format text not null,
  upstream_model text not null,
  max_concurrency integer not null check (max_concurrency > 0),
  fallback text[] not null,
  strip text[] not null,
  unsupported text[] not null,
  features text[] not null,
  created_at timestamptz not null default now()
);

-- A price version: micro-rupiah for one token of each bucket, in force from effective_at until the model's next one.
create table prices (
  id bigint generated always as identity primary key,
  model text not null references models,
  input_micro bigint not null check (input_micro >= 0),
  output_micro bigint not null check (output_micro >= 0),
  cache_read_micro bigint not null check (cache_read_micro >= 0),
  cache_write_micro bigint not null check (cache_write_micro >= 0),
  effective_at timestamptz not null,
  created_at timestamptz not null default now(),
  unique (model, effective_at)
);
