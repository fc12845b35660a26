-- The last hour in which each of an account's keys has called, between two hours; none of keys that have not. By the sums of months, then of
-- the days of a month, then of the hours of a day, so that little is read of keys that have not called for long.
create function last_hours_of_keys_1(account text, of_keys text[], first timestamptz, last timestamptz, with_months boolean)
returns table (key_id text, hour timestamptz) stable language plpgsql as $$
#variable_conflict use_column
declare
  piece record;
  found record;
  missing text[] := of_keys;
  having_calls text[];
begin
  for piece in
    select * from usage_pieces_1(account, 0, first, last, with_months) p order by p.since desc
  loop
    exit when cardinality(missing) = 0;
    having_calls := missing;
    if piece.day is not null then
      having_calls := array(
        select distinct s.key_id from usage_spans s where s.account_id = account and s.zone = 0 and s.is_month = piece.is_month
          and s.since = piece.day and s.key_id = any (missing) and s.calls > 0);
      continue when cardinality(having_calls) = 0;
    end if;
    for found in
      select l.key_id, l.hour from last_hours_of_keys_1(account, having_calls, piece.since, piece.until, false) l where piece.is_month
      union all
      select h.key_id, max(h.hour) from usage_hours h
      where piece.is_month is not true and h.account_id = account and h.hour >= piece.since and h.hour < piece.until
        and h.key_id = any (having_calls) and h.calls > 0
      group by h.key_id
    loop
      key_id := found.key_id;
      hour := found.hour;
      return next;
      missing := array_remove(missing, found.key_id);
    end loop;
  end loop;
end $$;

-- Records are found by their account: what is asked of a key is asked of its account's hours first.
drop index usage_key;
