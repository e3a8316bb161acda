-- Seals, which bind the files of runs.

-- One chain per project: a seal names the one before it by its hash.
CREATE TABLE seals (
    org       varchar(64) NOT NULL,
    project   varchar(255) NOT NULL,
    ordinal   bigint NOT NULL CHECK (ordinal > 0),
    run_id    uuid NOT NULL REFERENCES runs (id),
    hash      varchar(80) NOT NULL,                       -- sha256 of seal.json
    previous  varchar(80),                                -- NULL: the first
    key_id    varchar(80),                                -- the key that signed it, if any
    body      text NOT NULL,                              -- the text of seal.json, to restore the file
    placed    boolean NOT NULL DEFAULT false,             -- the file is in the run's folder
    sealed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (org, project, ordinal),
    UNIQUE (org, project, hash),
    CHECK ((ordinal = 1) = (previous IS NULL))
);
CREATE INDEX idx_seals_run ON seals (run_id);
CREATE INDEX idx_seals_not_placed ON seals (org, project) WHERE NOT placed;

CREATE FUNCTION refuse_other_seal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'seals are append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER seals_stay BEFORE DELETE OR TRUNCATE ON seals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_other_seal();
CREATE TRIGGER seals_do_not_change
    BEFORE UPDATE OF org, project, ordinal, run_id, hash, previous, key_id, body, sealed_at ON seals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_other_seal();

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'tallyman_app') THEN
        GRANT SELECT, INSERT ON seals TO tallyman_app;
        GRANT UPDATE (placed) ON seals TO tallyman_app;
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'role tallyman_app could not be given the new table: the program works as the owner';
END
$$;
