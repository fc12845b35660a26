-- The children of a key, for its bound and its list. Other keys are not in it.
create index concurrently if not exists children_of_keys on api_keys (parent_id) where parent_id is not null;
