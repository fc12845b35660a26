-- Reads all records, while calls go on.
alter table usage validate constraint usage_bound;
alter table usage validate constraint usage_excess_micro_check;
