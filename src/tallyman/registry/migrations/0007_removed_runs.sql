-- Runs whose folder was removed: the row, its seals and its lineage stay.

ALTER TABLE runs ADD removed_at timestamptz;
ALTER TABLE runs ADD removed_by varchar(255);
ALTER TABLE runs ADD CHECK ((removed_at IS NULL) = (removed_by IS NULL));
ALTER TABLE runs ADD CHECK (removed_at IS NULL OR status NOT IN ('running', 'waiting_approval'));
