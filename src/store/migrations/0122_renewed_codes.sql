-- Recovery codes, removed once the account's row is locked. A function, because its statement sees what was committed until it begins: the statement
-- that waits for the row sees what was there before it waited, and would leave what another one has added meanwhile.
create function remove_recovery_codes_1(account text) returns text volatile language plpgsql set search_path = public, pg_temp as $$
begin
  delete from recovery_codes where account_id = account;
  return account;
end $$;
