-- What an account was credited. Nearly all transfers credit the house's revenue, which nobody lists, and which is not in it.
create index concurrently if not exists transfers_credits on transfers (credit_account, id) where credit_account <> 'house:revenue';
