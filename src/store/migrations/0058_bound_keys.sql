-- Keys that expire, and keys that are bound: to models, wire formats, the networks of who calls, and a largest rate (micro-rupiah for
-- one token). Null is not bound.
alter table api_keys
  add column expires_at timestamptz,
  add column models text[],
  add column endpoints text[],
  add column networks text[],
  add column max_rate_micro bigint;

-- What is stored of a list is never empty: a key that may be used for nothing would be one by mistake.
alter table api_keys
  add constraint bound_models check (cardinality(models) between 1 and 64) not valid,
  add constraint bound_endpoints check (cardinality(endpoints) between 1 and 3) not valid,
  add constraint bound_networks check (cardinality(networks) between 1 and 32) not valid,
  add constraint bound_rate check (max_rate_micro >= 0) not valid;
