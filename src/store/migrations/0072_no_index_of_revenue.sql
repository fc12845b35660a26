-- Unused since 0071.
drop index concurrently if exists transfers_credit;
