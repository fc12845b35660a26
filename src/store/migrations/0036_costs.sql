-- What backends charge the house, by time, as prices are: a version is in force from effective_at until the next one of the same
-- backend of the same model. Amounts are whole nano-units (10^-9) of the currency; the rates are for 1,000,000 tokens.
create table costs (
  id bigint generated always as identity primary key,
  model text not null references models,
  provider text not null,
  format text not null,
  upstream_model text not null,
  currency text not null check (currency ~ '^[A-Z]{3}$'),
  input_nano bigint not null check (input_nano >= 0),
  output_nano bigint not null check (output_nano >= 0),
  cache_read_nano bigint not null check (cache_read_nano >= 0),
  cache_write_nano bigint not null check (cache_write_nano >= 0),
  per_call_nano bigint not null check (per_call_nano >= 0),
  per_search_nano bigint not null check (per_search_nano >= 0),
  rounding text not null check (rounding in ('none', 'per_bucket', 'per_call')),
  step_nano bigint not null check (step_nano > 0),
  effective_at timestamptz not null,
  created_at timestamptz not null default now(),
  unique (model, provider, format, upstream_model, effective_at)
);

-- Micro-rupiah for one unit of a currency, by time. A rupiah has none: it is one.
create table exchange_rates (
  id bigint generated always as identity primary key,
  currency text not null check (currency ~ '^[A-Z]{3}$' and currency <> 'IDR'),
  unit_micro bigint not null check (unit_micro > 0),
  source text not null check (source in ('operator', 'fetched')),
  effective_at timestamptz not null,
  created_at timestamptz not null default now(),
  unique (currency, effective_at)
);

create trigger costs_changed after insert or update or delete on costs
  for each statement execute function notify_catalogue_changed();
create trigger exchange_rates_changed after insert or update or delete on exchange_rates
  for each statement execute function notify_catalogue_changed();
