-- What became of rejections: replayed in another run, or given up by somebody.

-- The result whose rejections a result is a replay of.
ALTER TABLE materializations ADD replays uuid REFERENCES materializations (id);
-- Its rows join the rows of that result, the first of the line, instead of replacing them: it never
-- stands for the asset by itself.
ALTER TABLE materializations ADD adds_to uuid REFERENCES materializations (id);
ALTER TABLE materializations ADD CHECK (adds_to IS NULL OR replays IS NOT NULL);
CREATE INDEX idx_materializations_replays ON materializations (replays) WHERE replays IS NOT NULL;

CREATE TABLE resolutions (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id      uuid NOT NULL REFERENCES runs (id),        -- whose rejection it was
    asset_name  varchar(255) NOT NULL,
    partition   varchar(255),
    source_key  text NOT NULL,
    outcome     varchar(10) NOT NULL CHECK (outcome IN
                ('replayed',                               -- it met another fate than ERROR
                 'moved',                                  -- it is a rejection of the replay now
                 'discarded')),                            -- nobody will correct it
    by_run      uuid REFERENCES runs (id),                 -- the replay
    actor       varchar(255) NOT NULL,
    reason      text,
    settled_at  timestamptz,                               -- set by the commit of the replay; until then it says nothing
    inserted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK ((outcome = 'discarded') = (by_run IS NULL)),
    CHECK (outcome <> 'discarded' OR (reason IS NOT NULL AND settled_at IS NOT NULL))
);
-- Told twice is kept once. The hash: a key may be longer than an index entry.
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
