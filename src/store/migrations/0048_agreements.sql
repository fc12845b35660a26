-- The version of the terms, privacy and refund texts that the owner agreed to, and when. Null: to none yet.
alter table accounts add column agreed_version text, add column agreed_at timestamptz;
