-- Runs: calls of one key that together spend at most a budget, until the run ends. What a run has spent, and what of its budget
-- is leased, is kept in `key_spend` and `budget_leases`, where a run's id stands in place of a key's, with the period `total`: the
-- ledger's function charges both alike.
create table runs (
  -- Made of the key's id and of the name, so that a name is one run of its key.
  id text primary key check (id like 'run\_%'),
  account_id text not null references accounts,
  key_id text not null references api_keys,
  -- As calls name it: `X-Run-Id`.
  name text not null,
  budget_micro bigint not null check (budget_micro > 0),
  -- By the clock of the process that made it, as its calls' times are.
  created_at timestamptz not null,
  ends_at timestamptz not null check (ends_at > created_at)
);
create index runs_account on runs (account_id, created_at desc, id desc);
create index runs_ends on runs (ends_at);

-- An id says by its prefix what it names.
alter table key_spend drop constraint if exists key_spend_key_id_fkey;

-- Processes from before there were runs pass over what they are told of one.
create or replace function notify_budget_freed() returns trigger language plpgsql as $$
begin
  if new.key_id like 'run\_%' then
    perform pg_notify('loket', 'freed run ' || new.key_id);
  else
    perform pg_notify('loket', 'freed key ' || encode(key_hash, 'hex')) from api_keys where id = new.key_id;
  end if;
  return null;
end $$;

-- Makes a run where there is none of its id: false where the account has as many as it may. Who comes second waits for the first,
-- and counts it.
create function open_run_1(
  run text, account text, key text, called text, budget bigint, made timestamptz, ends timestamptz, most_open integer, most_kept integer
) returns boolean language plpgsql as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('loket:runs:' || account, 0));
  if exists (select from runs where id = run) then
    return true;
  end if;
  if (select count(*) from runs where account_id = account and ends_at > made) >= most_open
    or (select count(*) from runs where account_id = account) >= most_kept
  then
    return false;
  end if;
  insert into runs (id, account_id, key_id, name, budget_micro, created_at, ends_at)
  values (run, account, key, called, budget, made, ends);
  return true;
end $$;
