-- Which models of a chain may answer for the one that was asked for: any, those that cost no more, or none.
alter table api_keys add column fallback text not null default 'never_dearer'
  check (fallback in ('any', 'never_dearer', 'off'));

-- The day and the month of each key that were running when its account's time zone last changed: a new zone lets them run on, and
-- does not begin new ones. A key that is not here follows the calendar.
create table running_periods (
  key_id text not null references api_keys,
  period text not null check (period in ('daily', 'monthly')),
  started_at timestamptz not null,
  -- In the zone in which it began.
  own_end timestamptz not null,
  -- The first bound of the present zone that is not before it.
  ends_at timestamptz not null,
  primary key (key_id, period),
  check (started_at < own_end and own_end <= ends_at)
);
