-- Counts what was done to a lease other than settling: each growth, also one that grants nothing, and each return. A growth
-- names the version that its process knows, so that one which is carried out late, after another was, grants nothing.
alter table leases add column version integer not null default 0;
alter table budget_leases add column version integer not null default 0;
