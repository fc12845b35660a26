-- How far an account's input was over its estimate, where the house bore it: few rows, and one for each account, model and
-- part at most.
create table estimate_factors (
  account_id text not null references accounts,
  model text not null,
  part text not null check (part in ('texts', 'documents')),
  factor double precision not null check (factor >= 1),
  learnt_at timestamptz not null,
  primary key (account_id, model, part)
);
