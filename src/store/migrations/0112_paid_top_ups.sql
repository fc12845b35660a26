-- What was paid in a time, for operators' overview and its days: no top-up is read, of which there are years.
create index concurrently if not exists paid_top_ups on top_ups (paid_at) include (balance_purchased_micro, service_fee_micro) where status = 'paid';
