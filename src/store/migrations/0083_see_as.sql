-- Sessions of operators that show an account as its customer sees it, read only and for a while. There are a few at a time.
create table seen_accounts (
  session_id text primary key,
  operator_id text not null,
  -- The account that is shown.
  account_id text not null,
  until timestamptz not null,
  -- Of the request by which it began, whose row in the audit log has the reason.
  request_id text not null,
  address text
);

-- However it ends (by the operator, by time, with the session), the audit log says so, and by it the account's history.
create function note_seeing_end() returns trigger language plpgsql as $$
begin
  insert into audit_log (request_id, operator_id, address, action, subject, after)
  values (old.request_id || ':end', old.operator_id, old.address, 'account.see_as_ended', old.account_id,
    jsonb_build_object('ended_at', least(now(), old.until)))
  on conflict (request_id) do nothing;
  return null;
end $$;
create trigger seeing_ended after delete on seen_accounts for each row execute function note_seeing_end();
create trigger seeing_replaced after update on seen_accounts
  for each row when (old.request_id <> new.request_id) execute function note_seeing_end();

create function end_seeing_with_session() returns trigger language plpgsql as $$
begin
  delete from seen_accounts where session_id = old.id;
  return null;
end $$;
create trigger session_ended after delete on sessions for each row execute function end_seeing_with_session();
