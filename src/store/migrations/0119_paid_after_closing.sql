-- Payments that came after their account was closed: credited, and for an operator to pay back.
alter table payment_problems drop constraint payment_problems_kind_check;
alter table payment_problems add constraint payment_problems_kind_check
  check (kind in ('unknown_order', 'wrong_amount', 'mismatch', 'chargeback', 'over_refunded', 'closed_account')) not valid;
