alter table accounts add column language text not null default 'id' check (language in ('id', 'en'));

-- A mail when the balance is below the threshold; told_at is set while it is, so that one fall is one mail.
alter table accounts add column low_balance_email text;
alter table accounts add column low_balance_threshold_micro bigint check (low_balance_threshold_micro >= 0);
alter table accounts add column low_balance_told_at timestamptz;
create index accounts_low_balance on accounts (id) where low_balance_threshold_micro is not null;

-- What a person sees of their sessions; the id names one without being its token.
alter table sessions add column id text not null default 'ses_' || replace(gen_random_uuid()::text, '-', '') unique;
alter table sessions add column last_seen_at timestamptz not null default now();
alter table sessions add column user_agent text not null default '';
alter table sessions add column address text not null default '';
