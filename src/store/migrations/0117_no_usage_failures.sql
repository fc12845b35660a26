-- The same without what failures are counted by (0116_usage_errors.sql).
drop index if exists usage_failures;
