-- Trial credit that was given: once for an address, by a keyed hash of it that outlives the account, and once for an account.
create table trial_credits (
  address_hash bytea primary key,
  account_id text not null unique,
  amount_micro bigint not null check (amount_micro > 0),
  given_at timestamptz not null default now()
);

create function note_trial_credit() returns trigger language plpgsql as $$
begin
  perform note_account_event(new.account_id, 'trial.credited', is_now => jsonb_build_object('amount_micro', new.amount_micro), by_whom => 'gateway');
  return null;
end $$;
create trigger note_trial_credit after insert on trial_credits for each row execute function note_trial_credit();
