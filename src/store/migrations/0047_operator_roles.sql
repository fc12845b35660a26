-- What an operator may do. Null beside the role `operator` is an owner: those from before, and those that an older process makes.
alter table accounts add column operator_role text;
alter table accounts add constraint accounts_operator_role_check
  check (operator_role in ('support', 'finance', 'owner')) not valid;
