-- How rejections were resolved: replayed in another run, or discarded.

-- The result whose rejections this result replays.
ALTER TABLE materializations ADD replays uuid REFERENCES materializations (id);
-- The first result of the line, to whose rows the rows of this result are added. Such a result
-- never stands for the asset by itself.
ALTER TABLE materializations ADD adds_to uuid REFERENCES materializations (id);
ALTER TABLE materializations ADD CHECK (adds_to IS NULL OR replays IS NOT NULL);
CREATE INDEX idx_materializations_replays ON materializations (replays) WHERE replays IS NOT NULL;

CREATE TABLE resolutions (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id      uuid NOT NULL REFERENCES runs (id),        -- the run that rejected it
    asset_name  varchar(255) NOT NULL,
    partition   varchar(255),
    source_key  text NOT NULL,
    outcome     varchar(10) NOT NULL CHECK (outcome IN
                ('replayed',                               -- it got another fate than ERROR
                 'moved',                                  -- it is now a rejection of the replay
                 'discarded')),                            -- nobody will correct it
    by_run      uuid REFERENCES runs (id),                 -- the replay
    actor       varchar(255) NOT NULL,
    reason      text,
    settled_at  timestamptz,                               -- set by the replay's commit; before that it has no effect
    inserted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK ((outcome = 'discarded') = (by_run IS NULL)),
    CHECK (outcome <> 'discarded' OR (reason IS NOT NULL AND settled_at IS NOT NULL))
);
-- A repeated insert is ignored. The hash: a key may be longer than an index entry.
CREATE UNIQUE INDEX idx_resolutions_once ON resolutions
    (run_id, asset_name, coalesce(partition, ''), md5(source_key), coalesce(by_run, run_id));
CREATE INDEX idx_resolutions_by_run ON resolutions (by_run) WHERE by_run IS NOT NULL;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'tallyman_app') THEN
        GRANT SELECT, INSERT ON resolutions TO tallyman_app;
        GRANT UPDATE (settled_at) ON resolutions TO tallyman_app;
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'role tallyman_app could not be given the new table: the program works as the owner';
END
$$;
