-- What was done to an account, for its owner: sign-ins, keys, password, address, factors, webhooks, refunds, and what operators did. Rows
-- are written by triggers, so in the transaction of the change itself, whichever way it is made; none is ever of a call.
create table account_events (
  id bigint generated always as identity primary key,
  account_id text not null,
  at timestamptz not null default now(),
  action text not null,
  -- `gateway` is what nobody asked for, such as a freeze after a reconciliation.
  actor text not null default 'owner' check (actor in ('owner', 'operator', 'gateway')),
  -- The id of the key, the session, the passkey or the refund that it was done to, and its name then.
  subject text,
  name text,
  -- Of a sign-in.
  address text,
  user_agent text,
  -- What of the settings differs.
  before jsonb,
  after jsonb,
  -- More of the same within the day, once there are too many of them to have rows of their own.
  more integer not null default 0,
  transaction xid8 not null default pg_current_xact_id()
);
create index account_events_account on account_events (account_id, id desc);
create index account_events_action on account_events (account_id, action, at desc);
create index account_events_at on account_events (at);

-- Each kind of act has 300 rows a day of its own, so that one cannot be hidden behind many of another.
create function note_account_event(
  of_account text, what text, of_subject text default null, of_name text default null, was jsonb default null, is_now jsonb default null,
  from_address text default null, agent text default null, by_whom text default 'owner'
) returns void language plpgsql as $$
declare
  latest bigint;
  many bigint;
begin
  select max(id), count(*) into latest, many from (
    select id from account_events where account_id = of_account and action = what and at > now() - interval '1 day'
    order by at desc limit 300
  ) recent;
  if many >= 300 then
    update account_events set more = more + 1 where id = latest;
  else
    insert into account_events (account_id, action, actor, subject, name, before, after, address, user_agent)
    values (of_account, what, by_whom, of_subject, of_name, was, is_now, from_address, agent);
  end if;
end $$;

create function note_key_event() returns trigger language plpgsql as $$
declare
  shown text[] := '{name,requests_per_minute,tokens_per_minute,spending_limit_micro,spending_period,fallback,shows_balance,expires_at,models,endpoints,networks,max_rate_micro,breaker_ceiling_micro}';
  was jsonb;
  is_now jsonb;
begin
  if tg_op = 'INSERT' then
    perform note_account_event(new.account_id, 'key.created', new.id, new.name);
    return null;
  end if;
  -- What takes the names of keys away is no act on the account.
  if new.prefix = '' then return null; end if;
  if old.revoked_at is null and new.revoked_at is not null then
    perform note_account_event(new.account_id, 'key.revoked', new.id, new.name);
  end if;
  if (old.prefix, old.last4) is distinct from (new.prefix, new.last4) then
    perform note_account_event(new.account_id, 'key.rotated', new.id, new.name);
  end if;
  select jsonb_object_agg(o.key, o.value), jsonb_object_agg(n.key, n.value) into was, is_now
    from jsonb_each(to_jsonb(old)) o join jsonb_each(to_jsonb(new)) n using (key)
    where o.value is distinct from n.value and key = any (shown);
  if is_now is not null then
    perform note_account_event(new.account_id, 'key.changed', new.id, new.name, was, is_now);
  end if;
  return null;
end $$;
create trigger key_noted after insert or update on api_keys for each row execute function note_key_event();

create function note_account_change() returns trigger language plpgsql as $$
declare
  shown text[] := '{time_zone,low_balance_email,low_balance_threshold_micro,budget_mails,buyer_name,buyer_address,buyer_npwp}';
  fields text[];
begin
  if tg_op = 'INSERT' then
    perform note_account_event(new.id, 'account.created');
    return null;
  end if;
  if new.email = new.id || '@deleted.invalid' then return null; end if;
  if old.password_hash <> new.password_hash then perform note_account_event(new.id, 'password.changed'); end if;
  if old.email <> new.email then
    perform note_account_event(new.id, 'email.changed', null, null, jsonb_build_object('email', old.email), jsonb_build_object('email', new.email));
  elsif old.email_unproved and not new.email_unproved then
    perform note_account_event(new.id, 'email.proved');
  end if;
  if (old.role, old.operator_role) is distinct from (new.role, new.operator_role) then
    perform note_account_event(new.id, 'account.role');
  end if;
  if old.frozen_at is null and new.frozen_at is not null then
    perform note_account_event(new.id, 'account.frozen', by_whom => 'gateway');
  elsif old.frozen_at is not null and new.frozen_at is null then
    perform note_account_event(new.id, 'account.unfrozen', by_whom => 'gateway');
  end if;
  if old.deleted_at is null and new.deleted_at is not null then perform note_account_event(new.id, 'account.deleted'); end if;
  -- The language is not among them, which the page sets by itself. The names alone: what a buyer is called stands in the settings.
  select array_agg(key order by key) into fields
    from jsonb_each(to_jsonb(old)) o join jsonb_each(to_jsonb(new)) n using (key)
    where o.value is distinct from n.value and key = any (shown);
  if fields is not null then
    perform note_account_event(new.id, 'account.changed', is_now => jsonb_build_object('fields', fields));
  end if;
  return null;
end $$;
create trigger account_made after insert on accounts for each row execute function note_account_change();
-- Of these columns alone: what is counted for an account, such as its mails, is written often.
create trigger account_noted after update of password_hash, email, email_unproved, role, operator_role, frozen_at, deleted_at, time_zone,
  low_balance_email, low_balance_threshold_micro, budget_mails, buyer_name, buyer_address, buyer_npwp on accounts
  for each row when (old is distinct from new) execute function note_account_change();

create function note_session_event() returns trigger language plpgsql as $$
begin
  perform note_account_event(new.account_id, 'session.started', new.id, null, null,
    jsonb_build_object('second_factor', new.factor_at is not null), new.address, new.user_agent);
  return null;
end $$;
create trigger session_noted after insert on sessions for each row execute function note_session_event();

create function note_factor_event() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' then
    if old.confirmed_at is not null then perform note_account_event(old.account_id, 'second_factor.removed'); end if;
  elsif new.confirmed_at is not null and old.confirmed_at is null then
    perform note_account_event(new.account_id, 'second_factor.added');
  end if;
  return null;
end $$;
create trigger factor_noted after delete or update of confirmed_at on second_factors for each row execute function note_factor_event();

create function note_passkey_event() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' then
    perform note_account_event(old.account_id, 'passkey.removed', old.id, old.name);
  else
    perform note_account_event(new.account_id, 'passkey.added', new.id, new.name);
  end if;
  return null;
end $$;
create trigger passkey_noted after insert or delete on passkeys for each row execute function note_passkey_event();

create function note_webhook_event() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' then
    perform note_account_event(old.account_id, 'webhook.removed', null, old.url);
  elsif tg_op = 'INSERT' or old.url <> new.url then
    perform note_account_event(new.account_id, 'webhook.set', null, new.url);
  elsif old.secret <> new.secret then
    perform note_account_event(new.account_id, 'webhook.rotated', null, new.url);
  end if;
  return null;
end $$;
create trigger webhook_noted after insert or delete or update of url, secret on webhooks
  for each row execute function note_webhook_event();

create function note_refund_event() returns trigger language plpgsql as $$
begin
  if tg_op = 'UPDATE' and old.status = new.status then return null; end if;
  perform note_account_event(new.account_id, 'refund.' || new.status, new.id, by_whom => 'gateway',
    is_now => jsonb_build_object('amount_micro', new.balance_micro + new.service_fee_micro + new.payment_fee_micro));
  return null;
end $$;
create trigger refund_noted after insert or update of status on refunds for each row execute function note_refund_event();

-- What an operator does has its row in the operators' log in the same transaction. Who it was and why stays there.
create function note_operator_event() returns trigger language plpgsql as $$
declare
  owner text;
begin
  select id into owner from accounts where id = new.subject;
  if owner is null then select account_id into owner from api_keys where id = new.subject; end if;
  if owner is null then select account_id into owner from refunds where id = new.subject; end if;
  if owner is null then return null; end if;
  update account_events set actor = 'operator' where account_id = owner and transaction = pg_current_xact_id()
    and id > coalesce((select id from account_events where account_id = owner order by id desc offset 1000 limit 1), 0);
  if not found then perform note_account_event(owner, new.action, by_whom => 'operator'); end if;
  return null;
end $$;
create trigger operator_act_noted after insert on audit_log for each row execute function note_operator_event();
