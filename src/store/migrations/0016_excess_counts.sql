-- What a backend counted over its bounds (the forwarded answer limit, the context window), at its price: the part of
-- absorbed_micro that is not of the record's tokens. Not validated, so that no table is read whole under the lock: the
-- default holds for all that is there.
alter table usage add column excess_micro bigint not null default 0;
alter table usage add constraint usage_excess_micro_check check (excess_micro between 0 and absorbed_micro) not valid;
