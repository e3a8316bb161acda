-- Runs, the results they made, approvals, resolutions of rejections, and the audit log.

-- The program's rights: the owner of the tables migrates them, members of this role use them.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'tallyman_app') THEN
        CREATE ROLE tallyman_app NOLOGIN;
    END IF;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN
        NULL;  -- another database of this server created it at the same time
    WHEN insufficient_privilege THEN
        RAISE NOTICE 'role tallyman_app could not be made: the program will work as the owner';
END
$$;

CREATE TABLE runs (
    id                  uuid PRIMARY KEY,
    seq                 bigint GENERATED ALWAYS AS IDENTITY,  -- the order of runs: clocks go wrong
    name                varchar(64) NOT NULL,          -- the name for people: the id, unless one was given
    org                 varchar(64) NOT NULL,
    project             varchar(255) NOT NULL,
    status              varchar(50) NOT NULL DEFAULT 'running' CHECK (status IN
                        ('running', 'success', 'failed', 'halted', 'waiting_approval', 'canceled', 'interrupted')),
    params              jsonb NOT NULL DEFAULT '{}',   -- the options that resume needs
    pins                jsonb NOT NULL DEFAULT '{}',   -- dataset -> version that the run reads
    folder              text NOT NULL,                 -- relative to the project
    actor               varchar(255) NOT NULL,
    executor            uuid,                          -- only this process may write
    executor_node       varchar(255),
    lease_until         timestamptz,
    cancel_requested_at timestamptz,
    started_at          timestamptz NOT NULL,
    completed_at        timestamptz,
    inserted_at         timestamptz NOT NULL DEFAULT now(),
    updated_at          timestamptz NOT NULL DEFAULT now(),
    removed_at          timestamptz,                   -- its folder is gone; the row, its seals and its lineage stay
    removed_by          varchar(255),
    CONSTRAINT runs_name_once UNIQUE (org, project, name),
    CONSTRAINT runs_owner UNIQUE (id, org, project),
    CHECK ((status = 'running') = (executor IS NOT NULL)),
    CHECK ((removed_at IS NULL) = (removed_by IS NULL)),
    CHECK (removed_at IS NULL OR status NOT IN ('running', 'waiting_approval'))
);
CREATE INDEX idx_runs_newest ON runs (org, project, seq DESC);
CREATE INDEX idx_runs_running ON runs (lease_until) WHERE status = 'running';

-- 'org, project, asset, partition' for every input, so that one index lookup finds the readers of
-- exactly this one. The separator is a control character, which no name contains.
CREATE FUNCTION input_pair(org text, project text, asset text, partition text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT org || chr(31) || project || chr(31) || asset || chr(31) || coalesce(partition, '')
$$;
CREATE FUNCTION input_pairs(
    org text, own text, projects text[], assets text[], partitions text[]
) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT array_agg(org || chr(31) || coalesce(project, own) || chr(31) || asset || chr(31)
                     || coalesce(partition, '') ORDER BY n)
    FROM unnest(projects, assets, partitions) WITH ORDINALITY AS t (project, asset, partition, n)
$$;

CREATE SEQUENCE completions;
CREATE TABLE materializations (
    id                  uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    seq                 bigint GENERATED ALWAYS AS IDENTITY,  -- the order in which they were planned
    completion          bigint,                        -- and ended, of completions: set with completed_at
    org                 varchar(64) NOT NULL,
    project             varchar(255) NOT NULL,
    asset_name          varchar(255) NOT NULL,
    partition           varchar(255),                  -- NULL: the asset is not partitioned
    run_id              uuid NOT NULL REFERENCES runs (id),
    status              varchar(50) NOT NULL DEFAULT 'pending' CHECK (status IN
                        ('pending', 'running', 'success', 'failed', 'waiting_approval', 'skipped', 'canceled')),
    started_at          timestamptz,
    completed_at        timestamptz,
    duration_ms         integer CHECK (duration_ms >= 0),
    upstream_assets     text[],                        -- sources and assets it read; set on success only
    upstream_partitions text[],
    dependency_hash     varchar(64),
    metadata            jsonb DEFAULT '{}',
    error_message       text,
    executor_node       varchar(255),
    inserted_at         timestamptz NOT NULL DEFAULT now(),
    updated_at          timestamptz NOT NULL DEFAULT now(),
    -- beyond the seed
    attempt             integer NOT NULL DEFAULT 0,
    upstream_ids        uuid[],                        -- the materializations read; NULL for a source
    -- The fragment that each input was; NULL for a source. A materialization does not identify it:
    -- a result may fill several datasets, and a table has none.
    upstream_fragments  uuid[],
    -- An input of another pipeline: the project that made it, and the name that the reader gave it.
    -- In both, NULL means the project, or the asset name, of the row itself.
    upstream_projects   text[],
    upstream_inputs     text[],
    upstream_pairs      text[] GENERATED ALWAYS AS
        (input_pairs(org, project, upstream_projects, upstream_assets, upstream_partitions)) STORED,
    definition_hash     varchar(64),
    content_digest      varchar(80),                   -- of the rows, regardless of order and files
    location            text,                          -- of the output, relative to the project
    fragment_id         uuid,                          -- references fragments: see there
    last_completed_operation varchar(255),
    reused_id           uuid REFERENCES materializations (id),  -- skipped: the result it reused
    replays             uuid REFERENCES materializations (id),  -- the result whose rejections it replays
    -- The first result of the line, to whose rows the rows of this result are added. Such a result
    -- never stands for the asset by itself.
    adds_to             uuid REFERENCES materializations (id),
    invalidated_at      timestamptz,                   -- its result may no longer be reused
    -- A result belongs to the pipeline of its run.
    CONSTRAINT materializations_owner FOREIGN KEY (run_id, org, project) REFERENCES runs (id, org, project),
    CHECK (cardinality(upstream_assets) = cardinality(upstream_partitions)),
    CHECK (cardinality(upstream_assets) = cardinality(upstream_ids)),
    CHECK (cardinality(upstream_fragments) = cardinality(upstream_assets)),
    CHECK (cardinality(upstream_projects) = cardinality(upstream_assets)),
    CHECK (cardinality(upstream_inputs) = cardinality(upstream_assets)),
    CHECK (status <> 'success' OR (definition_hash IS NOT NULL AND dependency_hash IS NOT NULL
                                   AND content_digest IS NOT NULL AND location IS NOT NULL
                                   AND upstream_assets IS NOT NULL AND upstream_ids IS NOT NULL
                                   AND upstream_partitions IS NOT NULL)),
    CHECK ((status = 'skipped') = (reused_id IS NOT NULL)),
    CHECK (adds_to IS NULL OR replays IS NOT NULL)
);
CREATE INDEX idx_materializations_asset_partition
    ON materializations (org, project, asset_name, partition);
CREATE INDEX idx_materializations_run_id ON materializations (run_id);
CREATE INDEX idx_materializations_status ON materializations (status);
CREATE INDEX idx_materializations_inserted_at ON materializations (inserted_at DESC);
CREATE INDEX idx_materializations_upstream_assets ON materializations USING gin (upstream_assets);
CREATE INDEX idx_materializations_upstream_pairs ON materializations USING gin (upstream_pairs)
    WHERE status = 'success';
-- Find the results made from exactly this one, to mark them as stale when it is replaced.
CREATE INDEX idx_materializations_upstream_ids ON materializations USING gin (upstream_ids)
    WHERE status = 'success';
CREATE INDEX idx_materializations_upstream_inputs ON materializations USING gin (upstream_inputs)
    WHERE upstream_inputs IS NOT NULL;
CREATE INDEX idx_materializations_upstream_fragments
    ON materializations USING gin (upstream_fragments) WHERE upstream_fragments IS NOT NULL;
CREATE INDEX idx_materializations_replays ON materializations (replays) WHERE replays IS NOT NULL;
-- NULLs are distinct in a unique index: without coalesce two starts of one asset would be two rows.
CREATE UNIQUE INDEX idx_materializations_once_per_run
    ON materializations (run_id, asset_name, coalesce(partition, ''));
CREATE INDEX idx_materializations_latest
    ON materializations (org, project, asset_name, coalesce(partition, ''), seq DESC)
    INCLUDE (partition, status);

CREATE VIEW flowstone_materializations AS
    SELECT id, asset_name, partition, run_id, status, started_at, completed_at, duration_ms,
           upstream_assets, upstream_partitions, dependency_hash, metadata, error_message,
           executor_node, inserted_at, updated_at
    FROM materializations;

-- A table that was read has an entry for each of its fragments.
CREATE VIEW lineage_edges AS
    SELECT DISTINCT m.asset_name, m.partition, m.run_id, u.asset AS upstream_asset,
           u.partition AS upstream_partition, u.id AS upstream_materialization,
           m.completed_at AS consumed_at, m.org, m.project,
           coalesce(u.project, m.project) AS upstream_project
    FROM materializations m,
         unnest(m.upstream_assets, m.upstream_partitions, m.upstream_ids, m.upstream_projects)
             AS u (asset, partition, id, project)
    WHERE m.status = 'success';

CREATE TABLE approvals (
    id               uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    run_id           uuid NOT NULL REFERENCES runs (id),
    asset_name       varchar(255) NOT NULL,
    partition        varchar(255),
    attempt          integer NOT NULL,
    checkpoint_name  varchar(255) NOT NULL,
    message          text NOT NULL,
    context          jsonb NOT NULL DEFAULT '{}',
    timeout_at       timestamptz NOT NULL,
    status           varchar(50) NOT NULL DEFAULT 'pending'
                     CHECK (status IN ('pending', 'approved', 'rejected', 'expired')),
    decision_by      varchar(255),
    decision_at      timestamptz,
    reason           text,
    modifications    jsonb,
    decision_key     uuid,                             -- distinguishes a repeated answer from a second one
    escalated_to     varchar(255),
    escalation_count integer NOT NULL DEFAULT 0,
    inserted_at      timestamptz NOT NULL DEFAULT now(),
    CHECK ((status IN ('approved', 'rejected')) = (decision_by IS NOT NULL))
);
-- One question per attempt: a second one for the same result would need a second answer.
CREATE UNIQUE INDEX idx_approvals_once
    ON approvals (run_id, asset_name, coalesce(partition, ''), attempt);
CREATE INDEX idx_approvals_pending ON approvals (timeout_at) WHERE status = 'pending';

-- How rejections were resolved: replayed in another run, or discarded.
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

CREATE TABLE audit_log (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    org            varchar(64) NOT NULL,
    project        varchar(255) NOT NULL,
    event_type     varchar(100) NOT NULL,
    actor_id       varchar(255) NOT NULL,
    actor_type     varchar(50) NOT NULL DEFAULT 'user',
    resource       varchar(255) NOT NULL,
    action         varchar(100) NOT NULL,
    details        jsonb NOT NULL DEFAULT '{}',
    correlation_id uuid,                                 -- the run
    key            uuid NOT NULL DEFAULT gen_random_uuid() UNIQUE  -- a repeated insert is ignored
);
CREATE INDEX idx_audit_log_correlation ON audit_log (correlation_id);
CREATE INDEX idx_audit_log_owner ON audit_log (org, project, id DESC);

-- The application's role only has INSERT and SELECT; this also stops the owner from changing rows
-- by mistake.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER audit_log_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'tallyman_app') THEN
        GRANT SELECT, INSERT, UPDATE ON runs, materializations, approvals TO tallyman_app;
        GRANT USAGE ON SEQUENCE completions TO tallyman_app;
        GRANT SELECT ON flowstone_materializations, lineage_edges TO tallyman_app;
        GRANT SELECT, INSERT ON resolutions, audit_log TO tallyman_app;
        GRANT UPDATE (settled_at) ON resolutions TO tallyman_app;
        GRANT SELECT ON schema_migrations TO tallyman_app;
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'role tallyman_app could not be given the new tables: the program works as the owner';
END
$$;
