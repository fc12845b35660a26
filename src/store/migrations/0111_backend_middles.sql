-- The middle of the times to the first content of an hour that is over, of all members and processes together (backend_hours): to find it takes a row for
-- each step of each of them. Kept by a chore. It stands while there are as many tries as when it was found, which grow with whatever is counted.
create table backend_middles (
  hour timestamptz primary key,
  tries numeric not null,
  -- A step, where any try had content.
  middle integer
);
