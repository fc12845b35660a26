-- Mails are taken in this order, so that of many the next one is found at once.
create index concurrently if not exists outbox_mails on outbox (expires_at, id) where channel = 'mail' and due_at is not null;
