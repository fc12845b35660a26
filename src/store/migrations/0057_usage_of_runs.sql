-- The calls of a run, for its receipt. Calls that belong to none are not in it.
create index concurrently if not exists usage_of_runs on usage (run_id) where run_id is not null;
