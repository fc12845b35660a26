-- Whether the holder of a key may ask with it what is left (GET /v1/balance).
alter table api_keys add column shows_balance boolean not null default true;
