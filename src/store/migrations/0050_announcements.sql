-- What is announced by mail to everybody who was charged for a model: a price that is to come, or that the model was retired. One
-- that was withdrawn stays, so that those who were told are told that too. A thing of the same terms is announced once.
create table announcements (
  id bigint generated always as identity primary key,
  kind text not null check (kind in ('price', 'retirement')),
  model text not null references models,
  -- A price's id, rates and beginning; or what the model is served as and until when. Other terms are another announcement.
  terms jsonb not null,
  -- Until then it can be withdrawn.
  holds_until timestamptz not null,
  stands_since timestamptz not null,
  round_id bigint,
  withdrawn_at timestamptz
);
create unique index announcements_live on announcements (kind, model, terms) where withdrawn_at is null;

-- What was announced together, in one mail to each account: in the order of accounts, those up to after_account are through.
create table announcement_rounds (
  id bigint generated always as identity primary key,
  began_at timestamptz not null default now(),
  after_account text not null default '',
  ended_at timestamptz
);
create index announcement_rounds_open on announcement_rounds (id) where ended_at is null;
create index announcements_round on announcements (round_id);

-- Who was told, by which row of the outbox.
create table announced_accounts (
  announcement_id bigint not null references announcements,
  account_id text not null references accounts,
  mail_id text not null,
  primary key (announcement_id, account_id)
);
create index announced_accounts_account on announced_accounts (account_id);
