-- Markers of reroutes are listed by themselves; there are few of them among many records.
create index usage_markers on usage (account_id, request_id desc, part desc) where part > 0;
