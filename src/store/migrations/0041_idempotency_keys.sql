-- What a change is known by that may be sent again. Of the request only a keyed hash is here, whose key is the client's own
-- `Idempotency-Key`, of which a hash is here too: nothing of a body can be guessed from these rows.
create table idempotency_keys (
  -- Within what the client's key is unique: an account's id.
  scope text not null,
  key_hash bytea not null check (length(key_hash) = 32),
  account_id text not null references accounts,
  fingerprint bytea not null check (length(fingerprint) = 32),
  -- Which attempt carries it out, in which process, and until when nobody else may begin again while that process lives.
  claim text not null,
  process_id text not null,
  claimed_until timestamptz not null,
  -- When it was carried out, and the id of what it made.
  done_at timestamptz,
  made text check (length(made) <= 100),
  expires_at timestamptz not null,
  primary key (scope, key_hash)
);
create index idempotency_keys_account on idempotency_keys (account_id);
create index idempotency_keys_expiry on idempotency_keys (expires_at);
