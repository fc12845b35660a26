-- Accounts with a claim, which every process looks for all the time. Its condition is on the claim alone: the lease is another with each call.
create index concurrently if not exists balances_claims on balances (account_id) where claim_micro > 0;
