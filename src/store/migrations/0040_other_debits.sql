-- What else than calls has been taken of an account: its statement lists it, and must not read the charges of years to find it.
create index concurrently if not exists transfers_other_debits on transfers (debit_account, id) where reason <> 'charge'
