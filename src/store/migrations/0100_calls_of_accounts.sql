-- The calls of an account by their time, in entries of 28 bytes: the hash of its id, and of the request id the nine characters that are its time.
create index concurrently if not exists usage_calls on usage (hashtext(account_id), substr(request_id, 5, 9)) where part = 0;
