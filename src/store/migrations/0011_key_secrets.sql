-- The secrets of a key that was rotated, the first one included; a key that never was has the one in `api_keys`, which stays
-- its name among the gateway's processes.
create table key_secrets (
  secret_hash bytea primary key,
  key_id text not null references api_keys,
  created_at timestamptz not null default now(),
  -- When it stops to work; null for the current one.
  expires_at timestamptz
);
create index key_secrets_key on key_secrets (key_id);
