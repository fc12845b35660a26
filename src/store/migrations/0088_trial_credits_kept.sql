-- Trial credit that is owed since its address was proved, in the statement of the proof: a process that dies between the two loses nothing.
create table trial_dues (
  account_id text primary key,
  -- Of the keyed hash of the network from which the address was proved.
  network text not null,
  next_try_at timestamptz not null default now() + interval '30 seconds'
);

-- What was paid in or given, less what went back: the balance without calls and without trial credit, which is spent first.
create function refundable_1(payer text, posted bigint) returns bigint language sql stable as $$
  select case when not exists (select from trial_credits where account_id = payer) then posted
    else greatest(0, least(posted, (
      select coalesce(sum(amount_micro), 0) from transfers
      where credit_account = payer and credit_account <> 'house:revenue' and reason not in ('void', 'trial_credit')
    ) - (
      select coalesce(sum(amount_micro), 0) from transfers where debit_account = payer and reason <> 'charge'
    ))) end::bigint
$$;

-- As before, but what is left of a closed account is without its trial credit.
create or replace function refund_1(
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
    refundable := refundable_1(payer, b.posted_micro);
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
