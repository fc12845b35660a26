-- The ledger's batch is booked by a function, in the steps in which it happens. Each step sees what the one before it waited for,
-- and all of them are one statement of its caller. A function's name carries its version: a process that is older or newer than
-- the schema calls the one that it knows.
--
-- Plans are made once in a session, often while tables are empty, and kept. So a row is looked up by its primary key alone:
-- tables are never read whole, and `x = any (array[y])` is what an index can look up and no join can turn around. No condition
-- says `part = 0`, because there are indexes of those rows, whose columns would then be scanned.

-- Of a record, and empty until something fills them: what the backend charges the house, which of several backends of a
-- model answered, and the run that the call belongs to.
alter table usage add column cost_micro bigint;
alter table usage add column member text;
alter table usage add column run_id text;

-- A call that begins. Milliseconds since the epoch.
create type book_1_opening as (
  request_id text, account_id text, key_id text, lease_id bigint, model text, endpoint text, streamed boolean,
  hold_micro bigint, price_id bigint, opened_ms double precision
);

-- A record of a call that ends. What it costs is paid by the purses of its payer.
create type book_1_record as (
  request_id text, part integer, payer integer, account_id text, key_id text, lease_id bigint, model text, endpoint text,
  streamed boolean, status text, input_tokens bigint, output_tokens bigint, cache_read_tokens bigint, cache_write_tokens bigint,
  charge_micro bigint, absorbed_micro bigint, excess_micro bigint, price_id bigint, turns integer, attempts integer,
  error_code text, flagged boolean, opened_ms double precision, first_token_ms integer, duration_ms integer, voided boolean,
  cost_micro bigint, member text, run_id text
);

-- One of the purses of a payer, whose number calls name. Of an account: its lease. Of a key: one calendar period.
create type book_1_purse as (
  payer integer, owner_kind text, owner_id text, lease_id bigint, period text, period_start_ms double precision
);

-- What an owner has to pay; what is negative is given. The lease is one that is open, and that the caller has locked; without
-- one the money is the balance's own.
create type change_1 as (
  owner_kind text, owner_id text, lease_id bigint, period text, period_start timestamptz, amount_micro bigint
);

-- The one place that changes sums of money: balances, leases, budgets and what was spent. One change for each owner, lease and
-- period, in the order of locking, which is that of their names.
create function apply_1(process text, changes change_1[]) returns void language plpgsql
set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
begin
  update leases l set settled_micro = l.settled_micro + c.amount_micro
  from unnest(changes) c where c.owner_kind = 'account' and l.id = any (array[c.lease_id]);

  update balances b set posted_micro = b.posted_micro - c.amount, leased_micro = b.leased_micro - c.leased
  from (
    select owner_id, sum(amount_micro)::bigint as amount,
      coalesce(sum(amount_micro) filter (where lease_id is not null), 0)::bigint as leased
    from unnest(changes) where owner_kind = 'account' group by owner_id order by owner_id
  ) c
  where b.account_id = any (array[c.owner_id]);

  -- What of the spending was leased of the key's budget; a call that was admitted before there was a budget has no part in it.
  with locked as (
    select b.key_id, b.period, b.period_start,
      greatest(-b.settled_micro, least(b.granted_micro - b.returned_micro - b.settled_micro, c.amount_micro)) as amount
    from unnest(changes) c join budget_leases b on b.key_id = any (array[c.owner_id]) and b.period = c.period
      and b.period_start = c.period_start and b.process_id = process
    where c.owner_kind = 'key'
    for update of b
  ), settled as (
    update budget_leases b set settled_micro = b.settled_micro + k.amount
    from locked k where b.key_id = any (array[k.key_id]) and b.period = k.period and b.period_start = k.period_start
      and b.process_id = process
  )
  insert into key_spend (key_id, period, period_start, spent_micro, leased_micro)
  select c.owner_id, c.period, c.period_start, c.amount_micro, -coalesce(k.amount, 0)
  from unnest(changes) c
  left join locked k on k.key_id = c.owner_id and k.period = c.period and k.period_start = c.period_start
  where c.owner_kind = 'key'
  order by 1, 2, 3
  on conflict (key_id, period, period_start) do update set
    spent_micro = key_spend.spent_micro + excluded.spent_micro,
    leased_micro = key_spend.leased_micro + excluded.leased_micro;
end $$;

-- Books a batch, which may come twice: what moves money is what is inserted into `usage` for the first time. A patient one
-- waits for rows that others have locked; else accounts whose rows are locked are left out, with all that the batch says of
-- them, and named. Named as well are calls whose lease was no longer open: the house bears what they cost.
create function book_1(
  process text, patient boolean, opened book_1_opening[], ended book_1_record[], purses book_1_purse[]
) returns table (locked_account text, fenced_call text) language plpgsql
set enable_seqscan = off set plan_cache_mode = force_generic_plan set lock_timeout = '1s' as $$
declare
  payers bigint := (select count(*) from unnest(purses) where owner_kind = 'account');
  found_leases bigint[];
  open_leases bigint[];
  all_open boolean;
  skipped text[] := '{}';
  ids text[];
  parts smallint[];
  fresh book_1_record[];
  e book_1_record;
  was usage;
  void_payers integer[] := '{}';
  void_amounts bigint[] := '{}';
  changes change_1[];
  -- A variable, and so unknown to the plan.
  final_part constant smallint := 0;
begin
  if cardinality(ended) > 0 then
    -- 1. The leases and balances that are paid from, locked.
    if patient then
      select array_agg(id), array_agg(id) filter (where open) into found_leases, open_leases from (
        select l.id, l.closed_at is null as open from unnest(purses) p, leases l, balances b
        where p.owner_kind = 'account' and l.id = any (array[p.lease_id]) and b.account_id = any (array[p.owner_id])
        order by p.lease_id for update of l, b
      ) each_lease;
    else
      select array_agg(id), array_agg(id) filter (where open) into found_leases, open_leases from (
        select l.id, l.closed_at is null as open from unnest(purses) p, leases l, balances b
        where p.owner_kind = 'account' and l.id = any (array[p.lease_id]) and b.account_id = any (array[p.owner_id])
        order by p.lease_id for update of l, b skip locked
      ) each_lease;
      if payers > coalesce(cardinality(found_leases), 0) then
        skipped := array(
          select distinct p.owner_id from unnest(purses) p join leases l on l.id = any (array[p.lease_id])
          where p.owner_kind = 'account' and l.id <> all (coalesce(found_leases, '{}'))
        );
        return query select s, null::text from unnest(skipped) s;
        opened := array(select o from unnest(opened) o where o.account_id <> all (skipped));
        ended := array(select r from unnest(ended) r where r.account_id <> all (skipped));
      end if;
    end if;
    -- A lease that is not there is not open.
    all_open := payers = coalesce(cardinality(open_leases), 0);

    -- 2. The records. The customer pays only under an open lease; what a fenced process still sends costs the house.
    with added as (
      insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens,
        output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, excess_micro, price_id, turns,
        attempts, error_code, flagged, opened_at, first_token_ms, duration_ms, cost_micro, member, run_id)
      select r.request_id, r.part, r.account_id, r.key_id, r.lease_id, r.model, r.endpoint, r.streamed,
        case when r.charge_micro > 0 and not open then 'billing_error' else r.status end, r.input_tokens,
        r.output_tokens, r.cache_read_tokens, r.cache_write_tokens, case when open then r.charge_micro else 0 end,
        r.absorbed_micro + case when open then 0 else r.charge_micro end, r.excess_micro, r.price_id, r.turns,
        r.attempts, r.error_code, r.flagged or not open, to_timestamp(r.opened_ms / 1000), r.first_token_ms, r.duration_ms,
        r.cost_micro, r.member, r.run_id
      from unnest(ended) r cross join lateral (
        select all_open or r.lease_id = any (coalesce(open_leases, '{}')) as open offset 0
      ) l
      on conflict (request_id, part) do nothing
      returning request_id, part
    )
    select array_agg(request_id), array_agg(part) into ids, parts from added;
    if cardinality(ids) = cardinality(ended) then
      fresh := ended;
    else
      fresh := array(select r from unnest(ended) r join unnest(ids, parts) a (id, part) on a.id = r.request_id and a.part = r.part);
    end if;

    -- 3. The transfers of what is new.
    insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
    select t.name || r.request_id, t.debit, 'house:revenue', t.amount, t.reason
    from unnest(fresh) r
    cross join lateral (select all_open or r.lease_id = any (coalesce(open_leases, '{}')) as open offset 0) l
    cross join lateral (values
      ('charge:', r.account_id, case when open then r.charge_micro else 0 end, 'charge'),
      ('absorb:', 'house:absorbed', r.absorbed_micro + case when open then 0 else r.charge_micro end, 'absorbed')
    ) t (name, debit, amount, reason)
    where t.amount > 0;

    -- 4. What came before: charges that are taken back, and what comes too late to be charged.
    for e in
      select r.* from unnest(ended) r
      where r.part = 0 and (r.voided or not all_open and not r.lease_id = any (coalesce(open_leases, '{}')))
      order by r.request_id
    loop
      select * into was from usage u where u.request_id = e.request_id and u.part = e.part for update;
      if e.voided and (was.charge_micro > 0 or was.absorbed_micro > 0) then
        update usage u set status = 'billing_error', charge_micro = 0, absorbed_micro = 0, excess_micro = 0, flagged = true
        where u.request_id = e.request_id and u.part = e.part;
        insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
        select * from (values
          ('void:' || e.request_id, 'house:revenue', was.account_id, was.charge_micro, 'void'),
          ('void-absorb:' || e.request_id, 'house:revenue', 'house:absorbed', was.absorbed_micro, 'void')
        ) t (name, debit, credit, amount, reason) where t.amount > 0;
        void_payers := void_payers || e.payer;
        void_amounts := void_amounts || -was.charge_micro;
      elsif not e.lease_id = any (coalesce(open_leases, '{}')) then
        -- A late record of a process whose calls were ended for it: the house bears what it cost, of the model that answered.
        -- What was booked in time stays, and what was borne once and then taken back is not borne again.
        if e.charge_micro + e.absorbed_micro > 0 and was.status = 'billing_error' and was.absorbed_micro = 0
          and not exists (select from transfers t where t.idempotency_key = any (array['absorb:' || e.request_id]))
        then
          update usage u set absorbed_micro = e.charge_micro + e.absorbed_micro, excess_micro = e.excess_micro,
            input_tokens = e.input_tokens, output_tokens = e.output_tokens, cache_read_tokens = e.cache_read_tokens,
            cache_write_tokens = e.cache_write_tokens, model = e.model, price_id = e.price_id, turns = e.turns,
            attempts = e.attempts, cost_micro = e.cost_micro, member = e.member
          where u.request_id = e.request_id and u.part = e.part;
          insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
          values ('absorb:' || e.request_id, 'house:absorbed', 'house:revenue', e.charge_micro + e.absorbed_micro, 'absorbed');
        end if;
        -- What an earlier sending of this batch has charged, while the lease was open, is charged.
        if e.charge_micro > 0 and was.charge_micro = 0 then
          return query select null::text, e.request_id;
        end if;
      end if;
    end loop;

    -- 5. The sums that change by it.
    changes := array(
      select (p.owner_kind, p.owner_id, l.lease_id, p.period, to_timestamp(p.period_start_ms / 1000), sum(d.amount)::bigint)::change_1
      from (
        select r.payer, r.charge_micro as amount from unnest(fresh) r
        where r.charge_micro > 0 and (all_open or r.lease_id = any (coalesce(open_leases, '{}')))
        union all
        select * from unnest(void_payers, void_amounts)
      ) d (payer, amount)
      join unnest(purses) p on p.payer = d.payer
      cross join lateral (
        select case when p.lease_id = any (coalesce(open_leases, '{}')) then p.lease_id end as lease_id
      ) l
      where d.amount <> 0
      group by p.owner_kind, p.owner_id, l.lease_id, p.period, p.period_start_ms
      order by p.owner_kind, p.owner_id, l.lease_id, p.period, p.period_start_ms
    );
    if cardinality(changes) > 0 then
      perform apply_1(process, changes);
    end if;
  end if;

  -- 6. Openings begin, but of calls that have ended, and end.
  if cardinality(opened) > 0 then
    insert into openings (request_id, process_id, account_id, key_id, lease_id, model, endpoint, streamed, hold_micro,
      price_id, opened_at)
    select o.request_id, process, o.account_id, o.key_id, o.lease_id, o.model, o.endpoint, o.streamed, o.hold_micro,
      o.price_id, to_timestamp(o.opened_ms / 1000)
    from unnest(opened) o
    where (select count(*) from usage u where u.request_id = o.request_id and u.part = final_part) = 0
    on conflict (request_id) do nothing;
  end if;
  if cardinality(ended) > 0 then
    delete from openings where request_id = any (array(select r.request_id from unnest(ended) r where r.part = 0));
  end if;
end $$;
