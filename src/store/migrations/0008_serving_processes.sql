-- Rate windows and model caps are shared among the processes that take calls.

-- Since when it takes calls: null before it does, and from the moment it drains.
alter table processes add column serving_since timestamptz;
create index processes_serving on processes (serving_since, id) where serving_since is not null and closed_at is null;

create function notify_processes_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('loket', 'changed processes');
  return null;
end $$;
-- One begins to serve, drains, or is closed. A row is inserted before its process serves.
create trigger processes_changed after update on processes
  for each row execute function notify_processes_changed();
