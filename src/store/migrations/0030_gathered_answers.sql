-- Whether long answers of a model that do not stream are asked for as streams and gathered.
alter table models add column gather boolean not null default true;
