-- All backends of a model, as the catalogue file lists them. The three columns of one backend stay, and say what the first one is:
-- older processes read and write those alone. Where the first of the list is another one, the list is older than they are.
alter table models add column upstreams jsonb;
