-- Several processes on one database share what there is: leases are given back in part, a key's budget is leased as an
-- account's money is, and a process hears on channel `loket` what another has changed.

-- Cumulative, as the other sums of a lease: what was granted and given back unspent.
alter table leases add column returned_micro bigint not null default 0 check (returned_micro >= 0);
alter table leases add check (settled_micro + returned_micro <= granted_micro);

-- How much of the period's budget is leased to processes. A budget's limit is in `api_keys`.
alter table key_spend add column leased_micro bigint not null default 0;

-- What one process may spend of one key's budget of one period without asking again. It has no epoch: a process spends
-- of a budget only what it also spends of an account, and the account's lease fences it.
create table budget_leases (
  key_id text not null,
  period text not null,
  period_start timestamptz not null,
  process_id text not null references processes,
  granted_micro bigint not null,
  returned_micro bigint not null default 0,
  settled_micro bigint not null default 0,
  primary key (key_id, period, period_start, process_id),
  foreign key (key_id, period, period_start) references key_spend
);
create index budget_leases_process on budget_leases (process_id);

-- Notices are made here and not where the rows are written, so that no writer can forget one, an operator's SQL included.
create function notify_key_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('loket', 'changed key ' || encode(new.key_hash, 'hex'));
  return null;
end $$;
create trigger key_changed after update on api_keys
  for each row execute function notify_key_changed();

create function notify_account_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('loket', 'changed key ' || encode(key_hash, 'hex')) from api_keys where account_id = new.id;
  return null;
end $$;
create trigger account_changed after update on accounts
  for each row when (old.time_zone <> new.time_zone or old.deleted_at is distinct from new.deleted_at)
  execute function notify_account_changed();

-- More of it is free: credited, or given back by a lease. A settlement leaves as much free as there was.
create function notify_money_freed() returns trigger language plpgsql as $$
begin
  perform pg_notify('loket', 'freed account ' || new.account_id);
  return null;
end $$;
create trigger money_freed after update on balances
  for each row when (new.posted_micro - new.leased_micro > old.posted_micro - old.leased_micro)
  execute function notify_money_freed();

create function notify_budget_freed() returns trigger language plpgsql as $$
begin
  perform pg_notify('loket', 'freed key ' || encode(key_hash, 'hex')) from api_keys where id = new.key_id;
  return null;
end $$;
create trigger budget_freed after update on key_spend
  for each row when (new.spent_micro + new.leased_micro < old.spent_micro + old.leased_micro)
  execute function notify_budget_freed();
