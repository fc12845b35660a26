-- Receipts and monthly statements: each has one number, without gaps in its kind and year, and what it says is kept as it was
-- issued. To whom they are made out is the account's own to say.

alter table accounts add column buyer_name text;
alter table accounts add column buyer_address text;
-- The tax office's number (NPWP), its digits alone.
alter table accounts add column buyer_npwp text;

create table document_counters (
  kind text not null,
  year integer not null,
  next bigint not null check (next > 0),
  primary key (kind, year)
);

create table documents (
  number text primary key,
  kind text not null check (kind in ('receipt', 'refund', 'statement')),
  year integer not null,
  place bigint not null,
  account_id text not null references accounts,
  -- The top-up, the refund or the month that it is of.
  subject text not null,
  content jsonb not null,
  issued_at timestamptz not null,
  unique (account_id, kind, subject),
  unique (kind, year, place)
);

-- Issues a document once for each subject. The counter's row is locked until the end, so that whoever waited sees what was
-- issued meanwhile, and a number that was not used is the next one's.
create function issue_document_1(of_kind text, code text, of_account text, of_subject text, says jsonb) returns setof documents
language plpgsql as $$
#variable_conflict use_column
declare
  in_year integer := extract(year from clock_timestamp() at time zone 'Asia/Jakarta');
  n bigint;
begin
  return query select * from documents d where d.account_id = of_account and d.kind = of_kind and d.subject = of_subject;
  if found then
    return;
  end if;
  insert into document_counters (kind, year, next) values (of_kind, in_year, 1) on conflict do nothing;
  select c.next into n from document_counters c where c.kind = of_kind and c.year = in_year for update;
  return query select * from documents d where d.account_id = of_account and d.kind = of_kind and d.subject = of_subject;
  if found then
    return;
  end if;
  update document_counters c set next = n + 1 where c.kind = of_kind and c.year = in_year;
  return query insert into documents (number, kind, year, place, account_id, subject, content, issued_at)
    values (concat_ws('-', code, in_year, lpad(n::text, greatest(6, length(n::text)), '0')), of_kind, in_year, n, of_account,
      of_subject, says, clock_timestamp())
    returning *;
end $$;
