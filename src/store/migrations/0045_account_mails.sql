-- Whether the account's address is still to be proved. Accounts from before, and those made where no mail is sent, need no proof.
alter table accounts add column email_unproved boolean not null default false;

-- A mail to an account's owner: what is still to be sent, and the link in it once it was. One row is one link, for one use.
create table account_mails (
  id bigint generated always as identity primary key,
  account_id text not null references accounts,
  kind text not null,
  -- To whom. A change of the address is written to the one that is to take over.
  email text not null,
  -- When it is sent, or tried again; null once it was.
  next_try_at timestamptz default now(),
  tries integer not null default 0,
  -- SHA-256 of the link's token.
  token_hash bytea unique,
  -- What used the link: the same change that is sent again is the same use.
  used_by text,
  expires_at timestamptz not null
);
create index account_mails_due on account_mails (next_try_at) where next_try_at is not null;
create index account_mails_account on account_mails (account_id);
create index account_mails_over on account_mails (expires_at);

-- How often something was done under a name, of those that may be done so often in a time.
create table allowances (
  name text primary key,
  used integer not null,
  ends_at timestamptz not null
);
create index allowances_over on allowances (ends_at);
