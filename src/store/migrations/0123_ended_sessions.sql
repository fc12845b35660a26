-- All sessions of an account whose row is locked. A function, because its statement sees what was committed until it begins: the statement that waits
-- for the row, which a sign-in holds, sees what was there before it waited, and would leave that sign-in's session.
create function end_sessions_1(account text) returns text volatile language plpgsql set search_path = public, pg_temp as $$
begin
  delete from sessions where account_id = account;
  return account;
end $$;
