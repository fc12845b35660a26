-- As before, but for what Loket does itself: a freeze of a reconciliation has a row in the operators' log too, and no operator did it.
create or replace function note_operator_event() returns trigger language plpgsql as $$
declare
  owner text;
begin
  if new.request_id like 'reconciliation\_%' then return null; end if;
  select id into owner from accounts where id = new.subject;
  if owner is null then select account_id into owner from api_keys where id = new.subject; end if;
  if owner is null then select account_id into owner from refunds where id = new.subject; end if;
  if owner is null then return null; end if;
  update account_events set actor = 'operator' where account_id = owner and transaction = pg_current_xact_id()
    and id > coalesce((select id from account_events where account_id = owner order by id desc offset 1000 limit 1), 0);
  if not found then perform note_account_event(owner, new.action, by_whom => 'operator'); end if;
  return null;
end $$;
