-- What became of the members of pools: when one was held back and asked again, when its credential was refused and taken again. Members
-- and credentials are the catalogue's; nothing of a call is here but the class of its failure. What operators did is in audit_log.
create table backend_events (
  id bigint generated always as identity primary key,
  -- All of the same within a minute are one row, whichever processes saw them.
  minute timestamptz not null,
  -- Of a member: provider, credential and the backend's model; of a credential: provider and credential.
  member text not null,
  -- Of which pool; empty of a credential.
  model text not null,
  event text not null check (event in ('opened', 'closed', 'credential_refused', 'credential_accepted')),
  -- Of the first.
  at timestamptz not null,
  -- The failure by which it came, the last of the minute's; null of what is well again.
  class text,
  status integer,
  -- How often each process saw it, by its id: a process writes its own count again as it grows.
  processes jsonb not null,
  unique (minute, member, model, event)
);
create index backend_events_at on backend_events (at, id);
create index backend_events_member on backend_events (member, at, id);

-- Tries at members by the hour (UTC), as each process has counted them until now.
create table backend_hours (
  hour timestamptz not null,
  member text not null,
  model text not null,
  process_id text not null,
  answered bigint not null,
  -- Without requests that the backend did not take, which are nobody's failure.
  failed bigint not null,
  -- The part of the failures.
  rate_limited bigint not null,
  -- Times to the first content: in their order, steps that are each a tenth longer than the one before (backend-health.ts), and how many fall into each.
  steps smallint[] not null,
  step_tries bigint[] not null,
  primary key (hour, member, model, process_id)
) with (fillfactor = 70);
