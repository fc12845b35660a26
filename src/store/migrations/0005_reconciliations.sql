-- An account whose books do not agree makes no calls until an operator has looked at it.
alter table accounts add column frozen_at timestamptz;
alter table accounts add column frozen_reason text;
alter table accounts add check ((frozen_at is null) = (frozen_reason is null));

drop trigger account_changed on accounts;
create trigger account_changed after update on accounts
  for each row when (old.time_zone <> new.time_zone or old.deleted_at is distinct from new.deleted_at
    or old.frozen_at is distinct from new.frozen_at)
  execute function notify_account_changed();

-- One recomputation of the books. `day` is the one that gateway processes share, so that one of them does it; a person
-- may ask for any number more.
create table reconciliations (
  id bigint generated always as identity primary key,
  day date unique,
  -- Of a gateway; an attempt of one that was closed is taken over by another.
  process_id text,
  started_at timestamptz not null default now(),
  ended_at timestamptz,
  -- What was compared: an array of objects with name, compared and differences.
  claims jsonb,
  differences bigint check (differences >= 0),
  -- Top-ups that the payment provider gave no answer about.
  not_compared bigint check (not_compared >= 0),
  check ((ended_at is null) = (claims is null) and (ended_at is null) = (differences is null)
    and (ended_at is null) = (not_compared is null))
);
create index reconciliations_ended on reconciliations (ended_at) where ended_at is not null;

-- What did not agree, the first rows of each claim. Without an account it is about the house's books as a whole.
create table reconciliation_differences (
  id bigint generated always as identity primary key,
  reconciliation_id bigint not null references reconciliations,
  claim text not null,
  account_id text,
  -- Ids and amounts, as they were found.
  figures jsonb not null,
  -- Put right at once: nothing is wrong any more.
  mended boolean not null
);
create index reconciliation_differences_of on reconciliation_differences (reconciliation_id, id);
create index reconciliation_differences_account on reconciliation_differences (account_id, id);
