-- What operators tell visitors on `/status`, in both languages. It is about the house, and names nobody.
create table status_notes (
  id text primary key,
  indonesian text not null check (char_length(indonesian) between 1 and 1000),
  english text not null check (char_length(english) between 1 and 1000),
  created_at timestamptz not null default now(),
  -- Of the last change of its words.
  updated_at timestamptz not null default now(),
  resolved_at timestamptz
);
create index status_notes_at on status_notes (created_at);
