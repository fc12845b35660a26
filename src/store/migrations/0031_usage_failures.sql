-- Calls that failed are few among many. An older text of 0010 made this index.
create index concurrently if not exists usage_failures on usage (account_id, opened_at) where part = 0 and error_code is not null;
