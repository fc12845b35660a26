-- What failed of an account's calls, with all that it is counted by: a year of errors is counted in the index, and no record is read.
create index concurrently if not exists usage_errors on usage (account_id, opened_at, error_code) include (model, key_id, endpoint, status)
where part = 0 and error_code is not null;
