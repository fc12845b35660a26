-- Calls that were refused before they were forwarded, for the owner of their key: of each account a sample, for seven days. Of a
-- request nothing is here but where it went and the id of the model that it named.
create table refused_calls (
  request_id text primary key,
  account_id text not null references accounts,
  key_id text not null references api_keys,
  refused_at timestamptz not null,
  endpoint text not null,
  model text check (length(model) <= 100),
  code text not null check (length(code) <= 100)
);
-- Ids sort by time.
create index refused_calls_account on refused_calls (account_id, request_id);

-- All of them, by the hour: what a process has counted so far, so that it can be said again.
create table refused_counts (
  account_id text not null references accounts,
  hour timestamptz not null,
  code text not null check (length(code) <= 100),
  process_id text not null,
  calls bigint not null check (calls > 0),
  primary key (account_id, hour, code, process_id)
);
create index refused_counts_hour on refused_counts (hour);
