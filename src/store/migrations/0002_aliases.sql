-- Retired ids that are still routable. A model that has a row here is not sold under its own id any more: until the
-- time given it is served as its target, afterwards it is unknown.
create table model_aliases (
  alias text primary key,
  target text not null references models,
  until timestamptz not null,
  check (alias <> target)
);
