-- Names of request fields that travel to a model beside those of its format.
alter table models add column pass text[] not null default '{}';

-- What only this installation knows, the same for all its processes and for ever. Filled by the first that starts, and not
-- here, so that a copy of an empty database shares nothing with another.
create table installation_secrets (
  name text primary key,
  secret bytea not null
);
