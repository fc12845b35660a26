-- Mails of low balances that an account was sent in the day that began then: an address is whatever its owner typed.
alter table accounts add column low_balance_mails integer not null default 0;
alter table accounts add column low_balance_mails_since timestamptz;
