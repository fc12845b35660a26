-- What a provider took back over all that was paid, of a reversal that found a refund of the same top-up waiting to be paid out. Null where it is not
-- known, as of the versions before. Beside it all that it said then to have taken back unasked, null where it did not say: a reversal may be told
-- under two names.
alter table payment_problems add column over_micro bigint, add column up_to_micro bigint;

-- As `cancel_refund_1`, and in the same moment books what of reversals of its top-up was over while it waited: nobody can spend the money between
-- the two. What is spent already becomes a claim. A problem that is booked whole is resolved, one that an operator has resolved is done with.
create function cancel_refund_2(of_refund text) returns text volatile language plpgsql set search_path = public, pg_temp as $$
declare
  payer text := cancel_refund_1(of_refund);
  top_up text := (select top_up_id from refunds where id = of_refund);
  p payment_problems;
  reversal text;
  was refunds;
  rest bigint;
begin
  if payer is null or top_up is null then
    return payer;
  end if;
  for p in
    select * from payment_problems x
    where x.top_up_id = top_up and x.kind = 'over_refunded' and x.resolved_at is null and x.over_micro > 0
    order by x.id for update
  loop
    reversal := 'provider:' || p.provider || ':' || p.reference;
    select * into was from refunds x where x.account_id = payer and x.idempotency_key = reversal;
    select b.over_micro into strict rest from refund_1(
      'ref_' || md5(reversal || ':' || of_refund),
      coalesce(was.kind, case when exists (
        select from payment_problems x where x.provider = p.provider and x.reference = p.reference and x.kind = 'chargeback'
      ) then 'chargeback' else 'provider_refund' end),
      payer, top_up, p.over_micro, reversal || ':after:' || of_refund, coalesce(was.reason, ''), 'paid_out',
      substr(p.reference, length(top_up) + 2), p.up_to_micro, true) b;
    update payment_problems x set over_micro = rest,
      resolved_at = case when rest = 0 then now() end,
      note = case when rest = 0 then 'booked when ' || of_refund || ' was cancelled' end
    where x.id = p.id;
  end loop;
  return payer;
end $$;
