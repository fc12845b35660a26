-- Whether a call that an SDK sends again by itself gets the answer of the first.
alter table api_keys add column replays_retries boolean not null default true;

-- In the account's history: with the row of what else has changed by the same act, if there is one (`note_key_event`, whose trigger
-- comes before).
create function note_key_retries_event() returns trigger language plpgsql as $$
declare
  was jsonb := jsonb_build_object('replays_retries', old.replays_retries);
  is_now jsonb := jsonb_build_object('replays_retries', new.replays_retries);
begin
  if new.prefix = '' then return null; end if;
  update account_events set before = before || was, after = after || is_now
    where account_id = new.account_id and action = 'key.changed' and subject = new.id and transaction = pg_current_xact_id()
      and id = (select max(id) from account_events where account_id = new.account_id);
  if not found then perform note_account_event(new.account_id, 'key.changed', new.id, new.name, was, is_now); end if;
  return null;
end $$;
create trigger key_noted_retries after update of replays_retries on api_keys
  for each row when (old.replays_retries is distinct from new.replays_retries) execute function note_key_retries_event();
