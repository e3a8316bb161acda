-- OpenLineage events, stored in the transaction of what they describe until the receiver has taken
-- them.
CREATE TABLE lineage_events (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key        uuid NOT NULL UNIQUE,                      -- a repeated insert is ignored
    org        varchar(64) NOT NULL,
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
CREATE INDEX idx_lineage_events_to_send ON lineage_events (org, project, id)
    WHERE sent_at IS NULL AND refused_at IS NULL;
CREATE INDEX idx_lineage_events_run ON lineage_events (run_id);

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'tallyman_app') THEN
        GRANT SELECT, INSERT, DELETE ON lineage_events TO tallyman_app;
        GRANT UPDATE (body, attempts, last_error, refused_at, sent_at) ON lineage_events TO tallyman_app;
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'role tallyman_app could not be given the new table: the program works as the owner';
END
$$;
