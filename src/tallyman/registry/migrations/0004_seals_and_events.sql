-- Seals, which bind the files of runs, and lineage events that wait to be sent.

-- One chain per project: a seal names the one before it by its hash.
CREATE TABLE seals (
    project   varchar(255) NOT NULL,
    ordinal   bigint NOT NULL CHECK (ordinal > 0),
    run_id    uuid NOT NULL REFERENCES runs (id),
    hash      varchar(80) NOT NULL,                       -- sha256 of seal.json
    previous  varchar(80),                                -- NULL: the first
    key_id    varchar(80),                                -- the key that signed it, if any
    body      text NOT NULL,                              -- the text of seal.json, to restore the file
    placed    boolean NOT NULL DEFAULT false,             -- the file is in the run's folder
    sealed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (project, ordinal),
    UNIQUE (project, hash),
    CHECK ((ordinal = 1) = (previous IS NULL))
);
CREATE INDEX idx_seals_run ON seals (run_id);
CREATE INDEX idx_seals_not_placed ON seals (project) WHERE NOT placed;

CREATE FUNCTION refuse_other_seal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'seals are append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER seals_stay BEFORE DELETE OR TRUNCATE ON seals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_other_seal();
CREATE TRIGGER seals_do_not_change
    BEFORE UPDATE OF project, ordinal, run_id, hash, previous, key_id, body, sealed_at ON seals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_other_seal();

-- OpenLineage events, stored in the transaction of what they describe until the receiver has taken
-- them.
CREATE TABLE lineage_events (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key        uuid NOT NULL UNIQUE,                      -- a repeated insert is ignored
    project    varchar(255) NOT NULL,
    run_id     uuid NOT NULL REFERENCES runs (id),
    event_type varchar(10) NOT NULL CHECK (event_type IN
               ('START', 'RUNNING', 'COMPLETE', 'FAIL', 'ABORT', 'OTHER')),
    job        text NOT NULL,
    body       jsonb,                                     -- NULL after sending: the run folder has it
    attempts   integer NOT NULL DEFAULT 0,
    last_error text,
    refused_at timestamptz,                               -- the receiver will never accept it as it is
    sent_at    timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (sent_at IS NULL OR refused_at IS NULL),
    CHECK (body IS NOT NULL OR sent_at IS NOT NULL)
);
CREATE INDEX idx_lineage_events_to_send ON lineage_events (project, id)
    WHERE sent_at IS NULL AND refused_at IS NULL;
CREATE INDEX idx_lineage_events_run ON lineage_events (run_id);

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'tallyman_app') THEN
        GRANT SELECT, INSERT ON seals TO tallyman_app;
        GRANT UPDATE (placed) ON seals TO tallyman_app;
        GRANT SELECT, INSERT, DELETE ON lineage_events TO tallyman_app;
        GRANT UPDATE (body, attempts, last_error, refused_at, sent_at) ON lineage_events TO tallyman_app;
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'role tallyman_app could not be given the new tables: the program works as the owner';
END
$$;
