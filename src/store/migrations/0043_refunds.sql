-- Money that goes back to payers: by an operator, and by the payment provider, which asks nobody. What a provider takes back
-- and the customer has spent becomes a claim of the house on the account: `house:claims:` and the account's id. A claim is no
-- balance below zero. It is settled before anything of the account may be spent or leased.

alter table balances add column claim_micro bigint not null default 0;
-- How often a claim was settled, to name the transfers.
alter table balances add column claims_settled bigint not null default 0;
alter table balances add constraint balances_claim_first
  check (claim_micro >= 0 and (claim_micro = 0 or posted_micro = leased_micro)) not valid;

-- What is free goes to the claim, whoever frees it: a top-up, an adjustment, a lease that is given back or closed, a charge that
-- is taken back, in a process of this release or of an older one.
create function settle_claim() returns trigger language plpgsql as $$
declare
  settled bigint := least(new.claim_micro, new.posted_micro - new.leased_micro);
begin
  new.claims_settled := new.claims_settled + 1;
  insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
  values (concat_ws(':', 'claim', new.account_id, new.claims_settled), new.account_id, 'house:claims:' || new.account_id, settled, 'claim');
  new.posted_micro := new.posted_micro - settled;
  new.claim_micro := new.claim_micro - settled;
  return new;
end $$;
create trigger claims_first before update on balances
  for each row when (new.claim_micro > 0 and new.posted_micro > new.leased_micro) execute function settle_claim();

-- What of a top-up went back, by its parts. Never more than was paid.
alter table top_ups add column refunded_balance_micro bigint not null default 0;
alter table top_ups add column refunded_service_fee_micro bigint not null default 0;
alter table top_ups add column refunded_payment_fee_micro bigint not null default 0;
-- Something of it was taken back by the payer's bank.
alter table top_ups add column disputed_at timestamptz;
alter table top_ups add constraint top_ups_refunded check (
  refunded_balance_micro between 0 and balance_purchased_micro and refunded_service_fee_micro between 0 and service_fee_micro
  and refunded_payment_fee_micro between 0 and payment_fee_micro + network_fee_micro) not valid;

create table refunds (
  id text primary key check (id like 'ref\_%'),
  account_id text not null references accounts,
  -- Null for what was left of a closed account.
  top_up_id text references top_ups,
  -- `refund` is an operator's; the others the provider made.
  kind text not null check (kind in ('refund', 'provider_refund', 'chargeback')),
  -- Who names it: `operator:` and the operator's own key, or `provider:` and the provider's name for it. Once for each.
  idempotency_key text not null,
  -- What goes back: of the balance, and of the fees, which the house bears.
  balance_micro bigint not null check (balance_micro >= 0),
  service_fee_micro bigint not null check (service_fee_micro >= 0),
  payment_fee_micro bigint not null check (payment_fee_micro >= 0),
  -- The part of `balance_micro` that was not free when it was booked.
  claimed_micro bigint not null check (claimed_micro between 0 and balance_micro),
  reason text not null,
  -- `booked`: taken of the balance and to be paid out by a person. `sending`: the provider is asked to pay it out, again and again
  -- under the same name until it says yes or no.
  status text not null check (status in ('booked', 'sending', 'paid_out', 'cancelled')),
  payout text check (payout in ('by_hand', 'provider')),
  -- Of the payout: a bank's, or the provider's name for it.
  reference text,
  -- Why the provider did not pay it out.
  problem text,
  next_attempt_at timestamptz,
  created_at timestamptz not null default now(),
  paid_out_at timestamptz,
  cancelled_at timestamptz,
  unique (account_id, idempotency_key),
  check (balance_micro + service_fee_micro + payment_fee_micro > 0),
  check (kind = 'refund' or status = 'paid_out'),
  check ((status = 'paid_out') = (paid_out_at is not null)),
  check ((status = 'cancelled') = (cancelled_at is not null)),
  check ((status = 'sending') <= (next_attempt_at is not null and top_up_id is not null))
);
create index refunds_top_up on refunds (top_up_id) where top_up_id is not null;
create index refunds_account on refunds (account_id, created_at);
create index refunds_sending on refunds (next_attempt_at) where status = 'sending';

-- Books one refund, once for each key. Each step sees what the one before it waited for. Of a top-up the balance goes back first,
-- then the fees. `up_to` is all that the provider says it has taken back of the top-up by itself, null where it does not say:
-- no more is booked, whatever its parts come to. What is not free is short, or claimed. `named` is the provider's name
-- for it. What would be over all that was paid is told, and not booked.
create function refund_1(
  new_id text, new_kind text, payer text, of_top_up text, asked bigint, key text, why text, begins text, named text, up_to bigint,
  may_claim boolean
) returns table (outcome text, refund_id text, free_micro bigint, posted_micro bigint, refundable_micro bigint, amount_micro bigint,
  over_micro bigint)
language plpgsql as $$
#variable_conflict use_column
declare
  b balances;
  t top_ups;
  was refunds;
  amount bigint := asked;
  refundable bigint;
  of_balance bigint;
  of_service_fee bigint := 0;
  of_payment_fee bigint := 0;
  taken bigint;
  over bigint := 0;
begin
  select * into b from balances x where x.account_id = payer for update;
  if not found then
    return query select 'no account', null::text, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint;
    return;
  end if;
  select * into was from refunds r where r.account_id = payer and r.idempotency_key = key;
  if found then
    return query select 'before', was.id, b.posted_micro - b.leased_micro, b.posted_micro, 0::bigint,
      was.balance_micro + was.service_fee_micro + was.payment_fee_micro, 0::bigint;
    return;
  end if;
  if of_top_up is null then
    refundable := b.posted_micro;
    of_balance := amount;
  else
    select * into t from top_ups x where x.id = of_top_up and x.account_id = payer for update;
    if not found or t.status <> 'paid' then
      return query select 'not paid', null::text, b.posted_micro - b.leased_micro, b.posted_micro, 0::bigint, 0::bigint, 0::bigint;
      return;
    end if;
    refundable := t.balance_purchased_micro + t.service_fee_micro + t.payment_fee_micro + t.network_fee_micro
      - t.refunded_balance_micro - t.refunded_service_fee_micro - t.refunded_payment_fee_micro;
    if new_kind <> 'refund' then
      amount := least(amount, up_to - (
        select coalesce(sum(r.balance_micro + r.service_fee_micro + r.payment_fee_micro), 0)
        from refunds r where r.top_up_id = of_top_up and r.kind <> 'refund'));
      over := greatest(0, amount - refundable);
      amount := amount - over;
    end if;
    of_balance := least(amount, t.balance_purchased_micro - t.refunded_balance_micro);
    of_service_fee := least(amount - of_balance, t.service_fee_micro - t.refunded_service_fee_micro);
    of_payment_fee := amount - of_balance - of_service_fee;
  end if;
  if amount <= 0 or amount > refundable then
    return query select case when amount <= 0 then 'nothing' else 'over' end, null::text, b.posted_micro - b.leased_micro,
      b.posted_micro, refundable, 0::bigint, over;
    return;
  end if;
  taken := least(of_balance, b.posted_micro - b.leased_micro);
  if taken < of_balance and not may_claim then
    return query select 'short', null::text, b.posted_micro - b.leased_micro, b.posted_micro, refundable, of_balance, over;
    return;
  end if;
  insert into refunds (id, account_id, top_up_id, kind, idempotency_key, balance_micro, service_fee_micro, payment_fee_micro,
    claimed_micro, reason, status, reference, payout, next_attempt_at, paid_out_at)
  values (new_id, payer, of_top_up, new_kind, key, of_balance, of_service_fee, of_payment_fee, of_balance - taken, why, begins, named,
    case when new_kind <> 'refund' or begins = 'sending' then 'provider' end,
    case when begins = 'sending' then now() end, case when begins = 'paid_out' then now() end);
  insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
  select v.name, v.debit, 'house:cash_clearing', v.amount, v.reason from (values
    ('refund:' || new_id, payer, taken, new_kind),
    ('refund:' || new_id || ':claim', 'house:claims:' || payer, of_balance - taken, new_kind),
    ('refund:' || new_id || ':service_fee', 'house:revenue', of_service_fee, 'fee_refund')
  ) v (name, debit, amount, reason) where v.amount > 0;
  update top_ups x set refunded_balance_micro = x.refunded_balance_micro + of_balance,
    refunded_service_fee_micro = x.refunded_service_fee_micro + of_service_fee,
    refunded_payment_fee_micro = x.refunded_payment_fee_micro + of_payment_fee,
    disputed_at = case when new_kind = 'chargeback' then coalesce(x.disputed_at, now()) else x.disputed_at end
  where x.id = of_top_up;
  if taken > 0 then
    perform apply_1(null, array[('account', payer, null, null, null, taken)::change_1]);
  end if;
  update balances x set claim_micro = x.claim_micro + of_balance - taken where x.account_id = payer and of_balance > taken;
  return query select 'booked', new_id, b.posted_micro - b.leased_micro - taken, b.posted_micro - taken, refundable - amount, amount, over;
end $$;

-- Gives back what a refund has taken that was not paid out; null where it may not, or has been.
create function cancel_refund_1(of_refund text) returns text language plpgsql as $$
declare
  r refunds;
begin
  perform from balances x where x.account_id = (select account_id from refunds where id = of_refund) for update;
  update refunds x set status = 'cancelled', cancelled_at = now() where x.id = of_refund and x.status = 'booked' returning * into r;
  if not found then
    return null;
  end if;
  insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
  select v.name, 'house:cash_clearing', v.credit, v.amount, v.reason from (values
    ('refund-cancelled:' || r.id, r.account_id, r.balance_micro, 'refund_cancelled'),
    ('refund-cancelled:' || r.id || ':service_fee', 'house:revenue', r.service_fee_micro, 'fee_refund')
  ) v (name, credit, amount, reason) where v.amount > 0;
  update top_ups x set refunded_balance_micro = x.refunded_balance_micro - r.balance_micro,
    refunded_service_fee_micro = x.refunded_service_fee_micro - r.service_fee_micro,
    refunded_payment_fee_micro = x.refunded_payment_fee_micro - r.payment_fee_micro
  where x.id = r.top_up_id;
  if r.balance_micro > 0 then
    perform apply_1(null, array[('account', r.account_id, null, null, null, -r.balance_micro)::change_1]);
  end if;
  return r.account_id;
end $$;

-- What came from a provider and needs an operator: also what was taken back.
alter table payment_problems drop constraint payment_problems_kind_check;
alter table payment_problems add constraint payment_problems_kind_check
  check (kind in ('unknown_order', 'wrong_amount', 'mismatch', 'chargeback', 'over_refunded')) not valid;
