-- What operators did. A row is written by the statement that makes the change, so that nothing goes unlogged, and is never
-- changed afterwards. `request_id` is the request's own, or the command's; a statement that is sent again finds it there.
create table audit_log (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  request_id text not null unique,
  -- Null for the command line.
  operator_id text references accounts,
  address text,
  action text not null,
  -- What was changed: an account's id, a model's, a top-up's.
  subject text not null,
  before jsonb,
  after jsonb,
  reason text
);
create index audit_log_subject on audit_log (subject, id);

create trigger audit_log_is_final before update or delete on audit_log
  for each row execute function forbid_change();
create trigger audit_log_is_kept before truncate on audit_log
  for each statement execute function forbid_change();

-- Fields of a model that an operator has set since the catalogue file was last applied to it; `price` and `retired` too.
alter table models add column edited text[] not null default '{}';

-- The catalogue is one thing: who hears of a change reads all of it again.
create function notify_catalogue_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('loket', 'changed catalogue');
  return null;
end $$;
create trigger models_changed after insert or update or delete on models
  for each statement execute function notify_catalogue_changed();
create trigger prices_changed after insert or update or delete on prices
  for each statement execute function notify_catalogue_changed();
create trigger aliases_changed after insert or update or delete on model_aliases
  for each statement execute function notify_catalogue_changed();

-- Lists of all accounts and of all top-ups, the newest first.
create index accounts_created on accounts (created_at desc, id desc);
create index top_ups_created on top_ups (created_at desc, id desc);
create index api_keys_prefix on api_keys (prefix text_pattern_ops);
