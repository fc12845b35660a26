-- Of each account the event that is due first, so that the next ones are found by accounts, however many events wait.
create index concurrently if not exists outbox_webhooks on outbox (account_id, due_at, id) where channel = 'webhook' and due_at is not null;
