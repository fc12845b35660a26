-- The keys that pages may call with, for whoever reads all origins. Other keys are not in it.
create index concurrently if not exists origins_of_keys on api_keys (account_id) where origins is not null;
