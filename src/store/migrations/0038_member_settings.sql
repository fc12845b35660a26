-- What operators have set of the members of pools while they are at work, by the member's id. One without a row is as the
-- catalogue has it. Of a member that is there no more the row stays, and counts again if the member comes back.
create table member_settings (
  member text primary key check (length(member) between 1 and 1000),
  -- `draining` is asked only where no other one can be, `disabled` not at all.
  state text not null default 'serving' check (state in ('serving', 'draining', 'disabled')),
  -- In the place of the catalogue's.
  weight bigint check (weight between 0 and 100000000),
  -- Whatever had been found out about it until then is forgotten.
  retried_at timestamptz
);

-- Read along with the catalogue, and heard of as that is.
create trigger member_settings_changed after insert or update or delete on member_settings
  for each statement execute function notify_catalogue_changed();
