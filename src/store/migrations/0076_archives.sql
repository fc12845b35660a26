-- Months whose records are in a file, and no longer here: `loket archive`. Their sums stay, so that the books can be compared without
-- them. Transfers are not archived: what an account has is the sum of all of its own, for ever.
create table archives (
  -- What the month's table was called; the file has the same name.
  name text primary key,
  -- Its request ids, the second not included; `until_at` is the time in it.
  from_call text not null,
  until_call text not null,
  until_at timestamptz not null,
  records bigint not null,
  charge_micro numeric not null,
  absorbed_micro numeric not null,
  bytes bigint not null,
  sha256 text not null,
  archived_at timestamptz not null default now()
);
-- Where in the file are the records of some calls: those from this id on, up to the next block's. Each is compressed by itself.
create table archive_blocks (
  archive text not null references archives,
  first_call text not null,
  starts bigint not null,
  bytes integer not null,
  primary key (archive, first_call)
);
-- What archived calls were charged to each key, and under each lease that was open then.
create table archived_keys (
  key_id text primary key,
  charge_micro numeric not null,
  last_used_at timestamptz not null
);
create table archived_leases (
  lease_id bigint primary key,
  charge_micro numeric not null
);

-- Which transaction wrote it: what began before a reconciliation read, and ended after, was not looked at, though its id is lower.
alter table call_changes add column booked_in xid8;
alter table call_changes alter column booked_in set default pg_current_xact_id();

-- Only these functions write proofs, where tables have another owner than who runs a gateway.
alter function prove_1(bigint, boolean, text, bigint, bigint) security definer;
alter function prove_1(bigint, boolean, text, bigint, bigint) set search_path = public, pg_temp;

-- As `prove_1`, with what was archived; and done with are changes that the reconciliation could see, by its first snapshot. A transaction
-- that is yet to come is of the database that this one was copied from.
create function prove_2(base bigint, everything boolean, before_call text, last_transfer bigint, seen pg_snapshot)
returns bigint language plpgsql security definer set search_path = public, pg_temp as $$
declare
  from_call text := '';
  from_transfer bigint := 0;
  made bigint;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('loket:proofs', 0)) then
    return null;
  end if;
  if base is distinct from (select max(id) from proofs) then
    return null;
  end if;
  if not everything then
    select p.until_call, p.until_transfer into strict from_call, from_transfer from proofs p where p.id = base;
  end if;
  insert into proofs (is_full, until_call, until_transfer) values (everything, before_call, last_transfer) returning id into made;
  -- One statement, so that a change and its record are seen both or not at all.
  with found as materialized (
    select *, booked_in is null or pg_visible_in_snapshot(booked_in, seen) or booked_in >= pg_snapshot_xmax(pg_current_snapshot())
      as was_seen from call_changes
  ), changes as materialized (
    select * from found where not everything and request_id < from_call
  ), looked_at as (
    delete from call_changes where id in (select id from found where was_seen)
  ), not_looked_at as (
    update call_changes set charge_micro = 0 where id in (select id from found where not was_seen)
  ), accounts as (
    insert into proven_accounts (proof_id, account_id, amount_micro)
    select made, account, sum(amount) from (
      select account_id, amount_micro from proven_accounts where proof_id = base and not everything
      union all
      select m.account, m.amount from transfers t
      cross join lateral (values (t.credit_account, t.amount_micro), (t.debit_account, -t.amount_micro)) m (account, amount)
      where t.id > from_transfer and t.id <= last_transfer
    ) moved (account, amount) group by account
  ), keys as (
    insert into proven_keys (proof_id, key_id, charge_micro)
    select made, key_id, sum(amount) from (
      select key_id, charge_micro from proven_keys where proof_id = base and not everything
      union all select key_id, charge_micro from archived_keys where everything
      union all select key_id, charge_micro from usage where request_id >= from_call and request_id < before_call
      union all select key_id, charge_micro from changes
    ) charged (key_id, amount) group by key_id
  )
  insert into proven_leases (proof_id, lease_id, charge_micro)
  select made, lease_id, sum(amount) from (
    select lease_id, charge_micro from proven_leases where proof_id = base and not everything
    union all select lease_id, charge_micro from archived_leases where everything
    union all select lease_id, charge_micro from usage where request_id >= from_call and request_id < before_call
    union all select lease_id, charge_micro from changes
  ) charged (lease_id, amount)
  where lease_id in (select id from leases where closed_at is null) group by lease_id;
  delete from proven_accounts where proof_id < made;
  delete from proven_keys where proof_id < made;
  delete from proven_leases where proof_id < made;
  return made;
end $$;
