-- At least so many of an account's newest charges of calls between two, and all of the last one's millisecond. A function, because the planner takes hardly
-- any calls to be between two of which it does not know the place, and would read and sort them all: of a large account a quarter of a million for a page.
create function newest_charges_1(account text, since_call text, before_call text, wanted bigint)
returns table (request_id text, amount_micro bigint, at timestamptz) stable language sql set enable_bitmapscan = off set enable_sort = off as $$
  select u.request_id, u.charge_micro, u.opened_at + u.duration_ms * interval '1 millisecond' from usage u
  where u.account_id = account and hashtext(u.account_id) = hashtext(account) and u.part = 0 and u.charge_micro > 0
    and u.request_id >= since_call and substr(u.request_id, 5, 9) >= substr(since_call, 5, 9)
    and u.request_id < before_call and substr(u.request_id, 5, 9) <= substr(before_call, 5, 9)
  order by substr(u.request_id, 5, 9) desc fetch first (wanted) rows with ties
$$;
