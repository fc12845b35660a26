-- The authenticator app of an account.
create table second_factors (
  account_id text primary key references accounts,
  secret bytea not null,
  -- Null until its owner has shown a first code.
  confirmed_at timestamptz,
  -- The latest 30-second step of which a code was taken: no code is taken twice.
  last_step bigint not null default 0
);

-- SHA-256 of codes for who has lost the app; each is taken away when it is used.
create table recovery_codes (
  account_id text not null references accounts,
  code_hash bytea not null,
  primary key (account_id, code_hash)
);

-- A sign-in of which the password was right, and that waits for the second factor.
create table sign_in_steps (
  token_hash bytea primary key,
  account_id text not null references accounts,
  password_hash text not null,
  expires_at timestamptz not null
);
create index sign_in_steps_account on sign_in_steps (account_id);
create index sign_in_steps_over on sign_in_steps (expires_at);

-- When the session's owner showed a second factor.
alter table sessions add column factor_at timestamptz;
