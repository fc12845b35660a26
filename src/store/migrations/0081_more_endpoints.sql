-- Keys may be bound to more wire formats than three.
alter table api_keys
  drop constraint bound_endpoints,
  add constraint bound_endpoints_count check (cardinality(endpoints) between 1 and 16) not valid;
