-- What the provider calls the payment that was credited; both providers so far name it after the top-up.
alter table top_ups add column reference text;
update top_ups set reference = id where status = 'paid';

-- When a provider that can be asked was last asked, and is to be asked next; null when it is not asked any more.
alter table top_ups add column checked_at timestamptz;
alter table top_ups add column next_check_at timestamptz default now() + interval '10 seconds';
create index top_ups_due on top_ups (next_check_at) where status = 'pending' and next_check_at is not null;

-- Payments that came and were not credited, each once, for the operator to see to.
create table payment_problems (
  id bigint generated always as identity primary key,
  provider text not null,
  kind text not null check (kind in ('unknown_order', 'wrong_amount', 'mismatch')),
  reference text not null,
  top_up_id text references top_ups,
  -- As the provider says it.
  paid text not null,
  first_seen_at timestamptz not null default now(),
  last_seen_at timestamptz not null default now(),
  resolved_at timestamptz,
  resolved_by text references accounts,
  note text,
  unique (provider, kind, reference, paid)
);
create index payment_problems_open on payment_problems (id) where resolved_at is null;
