-- People who work on an account that is not their own: another account's owner, with a role in this one.
create table members (
  account_id text not null references accounts,
  member_id text not null references accounts,
  role text not null check (role in ('owner', 'billing', 'developer', 'viewer')),
  since timestamptz not null default now(),
  invited_by text not null,
  -- Of the invitation's link: the same acceptance that is sent again finds that it was carried out.
  invitation_hash bytea not null,
  primary key (account_id, member_id),
  check (account_id <> member_id)
);
create index members_member on members (member_id);

-- Who was asked to be one, and has not answered. A row is one link, for one use.
create table invitations (
  id text primary key,
  account_id text not null references accounts,
  email text not null,
  role text not null check (role in ('owner', 'billing', 'developer', 'viewer')),
  invited_by text not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  -- SHA-256 of the link's token; null until its mail is written.
  token_hash bytea unique,
  -- The link went to the address by mail and to nobody else, so whoever has it has the address.
  mailed boolean not null default false
);
create unique index invitations_email on invitations (account_id, lower(email));
create index invitations_over on invitations (expires_at);
alter table account_mails add column invitation_id text;

-- Which account's pages a session shows; null is the person's own. It is good while there is such a member.
alter table sessions add column looks_at text;

-- Who did it, where it was a member and not the account's own person.
alter table account_events add column member_id text;
alter table account_events drop constraint account_events_actor_check;
alter table account_events add constraint account_events_actor_check check (actor in ('owner', 'member', 'operator', 'gateway')) not valid;

-- Whoever works on another's account says so for the transaction: `loket.member` is that account and the member, with a space between.
-- Each kind of act has 300 rows a day of its own for each who does it.
create or replace function note_account_event(
  of_account text, what text, of_subject text default null, of_name text default null, was jsonb default null, is_now jsonb default null,
  from_address text default null, agent text default null, by_whom text default 'owner'
) returns void language plpgsql as $$
declare
  latest bigint;
  many bigint;
  acting text[] := string_to_array(current_setting('loket.member', true), ' ');
  by_member text;
begin
  if by_whom = 'owner' and acting[1] = of_account then by_member := acting[2]; end if;
  select max(id), count(*) into latest, many from (
    select id from account_events where account_id = of_account and action = what and at > now() - interval '1 day'
      and member_id is not distinct from by_member
    order by at desc limit 300
  ) recent;
  if many >= 300 then
    update account_events set more = more + 1 where id = latest;
  else
    insert into account_events (account_id, action, actor, member_id, subject, name, before, after, address, user_agent)
    values (of_account, what, case when by_member is null then by_whom else 'member' end, by_member, of_subject, of_name, was, is_now,
      from_address, agent);
  end if;
end $$;

create function note_member_event() returns trigger language plpgsql as $$
declare
  row members := case when tg_op = 'DELETE' then old else new end;
  address text;
  is_gone boolean;
begin
  if exists (select from accounts where id = row.account_id and deleted_at is not null) then return null; end if;
  select email, deleted_at is not null into address, is_gone from accounts where id = row.member_id;
  if tg_op = 'INSERT' then
    perform note_account_event(row.account_id, 'member.joined', row.member_id, address, null, jsonb_build_object('role', row.role));
    perform note_account_event(row.member_id, 'membership.joined', row.account_id, (select email from accounts where id = row.account_id),
      null, jsonb_build_object('role', row.role));
  elsif tg_op = 'UPDATE' then
    perform note_account_event(row.account_id, 'member.role', row.member_id, address, jsonb_build_object('role', old.role),
      jsonb_build_object('role', row.role));
  else
    -- Whose account is deleted leaves.
    if is_gone then perform set_config('loket.member', row.account_id || ' ' || row.member_id, true); end if;
    perform note_account_event(row.account_id,
      case when current_setting('loket.member', true) = row.account_id || ' ' || row.member_id then 'member.left' else 'member.removed' end,
      row.member_id, address, jsonb_build_object('role', row.role));
    perform note_account_event(row.member_id, 'membership.ended', row.account_id,
      (select email from accounts where id = row.account_id), jsonb_build_object('role', row.role), by_whom => 'gateway');
  end if;
  return null;
end $$;
create trigger member_joined_or_left after insert or delete on members for each row execute function note_member_event();
create trigger member_changed after update on members
  for each row when (old.role is distinct from new.role) execute function note_member_event();

-- Whether this person may decide who is a member of the account: its own person, and its members who are owners.
create function decides_on_members(of_account text, person text) returns boolean language sql stable as $$
  select exists (select from accounts where id = of_account and deleted_at is null) and (
    person = of_account or exists (select from members where account_id = of_account and member_id = person and role = 'owner')
  )
$$;

-- Why the account may not invite this address now, null where it was done. The row's lock makes one caller after the other count, and
-- each statement of a function sees what was committed before it. Whoever was invited before is invited anew.
create function invite_member(
  of_account text, invitation text, address text, with_role text, by_person text, hash bytea, is_mailed boolean, most integer, days integer
) returns text language plpgsql as $$
declare
  owner accounts;
begin
  select * into owner from accounts where id = of_account and deleted_at is null for no key update;
  if exists (select from invitations where id = invitation) then return null; end if;
  if not decides_on_members(of_account, by_person) then return 'not allowed'; end if;
  if owner.frozen_at is not null then return 'frozen'; end if;
  if lower(owner.email) = lower(address) then return 'own'; end if;
  if exists (
    select from members m join accounts a on a.id = m.member_id where m.account_id = of_account and lower(a.email) = lower(address)
  ) then return 'member'; end if;
  delete from invitations where account_id = of_account and expires_at <= now();
  if (select count(*) from members where account_id = of_account)
    + (select count(*) from invitations where account_id = of_account and lower(email) <> lower(address)) >= most then
    return 'too many';
  end if;
  insert into invitations as i (id, account_id, email, role, invited_by, expires_at, token_hash)
  values (invitation, of_account, address, with_role, by_person, now() + make_interval(days => days), hash)
  on conflict (account_id, lower(email)) do update set id = excluded.id, email = excluded.email, role = excluded.role,
    invited_by = excluded.invited_by, created_at = now(), expires_at = excluded.expires_at, token_hash = excluded.token_hash, mailed = false;
  delete from account_mails where account_id = of_account and kind = 'invitation' and lower(email) = lower(address);
  if is_mailed then
    insert into account_mails (account_id, kind, email, invitation_id, expires_at)
    values (of_account, 'invitation', address, invitation, now() + interval '1 day');
  end if;
  perform note_account_event(of_account, 'member.invited', invitation, address, null, jsonb_build_object('role', with_role));
  return null;
end $$;

-- Makes this person the member that an invitation was for. Both accounts are locked, in the order of their ids: what is counted stays.
create function accept_invitation(hash bytea, person text, most integer)
returns table (outcome text, joined text) language plpgsql as $$
declare
  asked invitations;
  known accounts;
begin
  select * into asked from invitations where token_hash = hash;
  perform from accounts where id in (asked.account_id, person) order by id for no key update;
  select * into asked from invitations where token_hash = hash and expires_at > now() for update;
  if not found then
    return query select 'done', m.account_id from members m where m.invitation_hash = hash and m.member_id = person;
    if not found then return query select 'no link', null::text; end if;
    return;
  end if;
  select * into known from accounts where id = person and deleted_at is null;
  if known.id is null or not exists (select from accounts where id = asked.account_id and deleted_at is null) then
    return query select 'no link', null::text;
  elsif lower(known.email) <> lower(asked.email) or known.id = asked.account_id then
    return query select 'other address', null::text;
  elsif known.email_unproved and not asked.mailed then
    return query select 'not proved', null::text;
  elsif (select count(*) from members where member_id = person) >= most then
    return query select 'too many', null::text;
  else
    perform set_config('loket.member', asked.account_id || ' ' || person, true);
    insert into members (account_id, member_id, role, invited_by, invitation_hash)
    values (asked.account_id, person, asked.role, asked.invited_by, hash) on conflict do nothing;
    delete from invitations where id = asked.id;
    delete from account_mails where account_id = asked.account_id and invitation_id = asked.id;
    -- A link that was mailed proves the address to which it was mailed.
    if known.email_unproved then
      update accounts set email_unproved = false where id = person;
      delete from account_mails where account_id = person and kind = 'prove';
    end if;
    return query select 'done', asked.account_id;
  end if;
end $$;
