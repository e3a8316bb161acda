-- Datasets, their versions, the commits that move what is current, and the pipelines that make them.

CREATE TABLE datasets (
    id               uuid PRIMARY KEY DEFAULT gen_random_uuid(),  -- the only name in storage
    org              varchar(64) NOT NULL,
    name             varchar(128) NOT NULL CHECK (name ~ '^[a-z][a-z0-9_]{0,127}$'),
    kind             varchar(10) NOT NULL CHECK (kind IN ('asset', 'table')),
    project          varchar(255) NOT NULL,               -- the project that produces it
    producer         varchar(255) NOT NULL,               -- the asset or table of that project
    key_columns      text[] NOT NULL DEFAULT '{}',
    partition_column varchar(255),
    published        boolean NOT NULL DEFAULT true,       -- outside readers see it
    ordinal          integer NOT NULL DEFAULT 0,          -- of the newest version; 0: none yet
    current_version  uuid,                                -- NULL: nothing to read
    inserted_at      timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    CHECK (ordinal >= 0),
    CHECK (ordinal > 0 OR current_version IS NULL),
    UNIQUE (org, name),
    UNIQUE (org, project, kind, producer)
);

-- The kind says why a commit was made; the versions that name it are what it moved.
CREATE TABLE commits (
    id               uuid PRIMARY KEY,
    seq              bigint GENERATED ALWAYS AS IDENTITY UNIQUE,  -- assigned while the head is locked
    org              varchar(64) NOT NULL,
    kind             varchar(20) NOT NULL CHECK (kind IN
                     ('run', 'apply', 'rollback', 'mutate', 'load')),
    parent           uuid REFERENCES commits (id),
    actor            varchar(255) NOT NULL,
    project          varchar(255) NOT NULL,
    run_id           uuid REFERENCES runs (id),
    message          text,
    pipeline_version varchar(64),                         -- the version that is active after it
    details          jsonb NOT NULL DEFAULT '{}',
    key              uuid NOT NULL UNIQUE,                -- to find the commit if the reply was lost
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX idx_commits_project ON commits (org, project, seq DESC);

-- One row per pipeline: its commits form a line, and this is its end. Pipelines do not wait for
-- each other: a dataset has one producer.
CREATE TABLE heads (
    org       varchar(64),
    project   varchar(255),
    commit_id uuid REFERENCES commits (id),
    PRIMARY KEY (org, project)
);

CREATE TABLE versions (
    id                uuid PRIMARY KEY,
    dataset_id        uuid NOT NULL REFERENCES datasets (id),
    ordinal           integer NOT NULL CHECK (ordinal > 0),
    commit_id         uuid NOT NULL REFERENCES commits (id),
    operation         varchar(10) NOT NULL CHECK (operation IN
                      ('replace', 'append', 'mutate', 'restore', 'remove')),
    restores          integer,                            -- the version whose content this has
    row_count         bigint NOT NULL,
    byte_count        bigint NOT NULL,
    file_count        integer NOT NULL,
    metadata_location text,                               -- NULL: there is nothing to read
    metadata_files    jsonb NOT NULL,                     -- [{path, sha256, bytes}]
    purged_at         timestamptz,
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (dataset_id, ordinal),
    CHECK ((operation = 'restore') = (restores IS NOT NULL)),
    CHECK ((operation = 'remove') = (metadata_location IS NULL))
);
CREATE INDEX idx_versions_commit ON versions (commit_id);
ALTER TABLE datasets ADD FOREIGN KEY (current_version) REFERENCES versions (id);

-- Files that came into a dataset together and leave it together: one partition, one append, one
-- mutation. The row exists before the first file, so that every file has a known owner.
CREATE TABLE fragments (
    id                 uuid PRIMARY KEY,
    dataset_id         uuid NOT NULL REFERENCES datasets (id),
    partition          varchar(255),
    run_id             uuid REFERENCES runs (id),          -- the run that writes it
    materialization_id uuid REFERENCES materializations (id),
    staged_at          timestamptz,                        -- its files are complete and durable
    row_count          bigint,
    byte_count         bigint,
    files              jsonb,                              -- [{path, sha256, bytes, rows}]
    digest             varchar(80),                        -- of the rows, regardless of files
    schema             jsonb,
    manifest           jsonb,                              -- NULL: it has no rows
    purged_at          timestamptz,                        -- its files are or will be deleted
    inserted_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (staged_at IS NULL OR (files IS NOT NULL AND digest IS NOT NULL AND schema IS NOT NULL
                                 AND row_count IS NOT NULL AND byte_count IS NOT NULL))
);
-- Each target looks up its own partition, of which there may be thousands.
CREATE INDEX idx_fragments_partition ON fragments (dataset_id, partition);
CREATE INDEX idx_fragments_materialization ON fragments (materialization_id);
ALTER TABLE materializations ADD FOREIGN KEY (fragment_id) REFERENCES fragments (id);

-- The fragments of version n: since <= n, and until is NULL or > n.
CREATE TABLE version_fragments (
    dataset_id  uuid NOT NULL REFERENCES datasets (id),
    fragment_id uuid NOT NULL REFERENCES fragments (id),
    since       integer NOT NULL,
    until       integer CHECK (until > since),
    PRIMARY KEY (dataset_id, fragment_id, since)
);
-- A fragment is in a version once: a second open row would count its rows twice.
CREATE UNIQUE INDEX idx_version_fragments_live ON version_fragments (dataset_id, fragment_id)
    WHERE until IS NULL;

-- A permanent name for one version. It shares a namespace with datasets: both are read by name.
CREATE TABLE snapshots (
    org        varchar(64) NOT NULL,
    alias      varchar(128) NOT NULL CHECK (alias ~ '^[a-z][a-z0-9_]{0,127}$'),
    dataset_id uuid NOT NULL REFERENCES datasets (id),
    ordinal    integer NOT NULL,
    actor      varchar(255) NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (org, alias),
    FOREIGN KEY (dataset_id, ordinal) REFERENCES versions (dataset_id, ordinal)
);

-- What a pipeline was: its compiled plan, which can be run, and the text of the files it was made from.
CREATE TABLE pipeline_versions (
    org        varchar(64) NOT NULL,
    project    varchar(255) NOT NULL,
    hash       varchar(64) NOT NULL,
    definition jsonb NOT NULL,
    plan       text NOT NULL,
    files      jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (org, project, hash)
);
-- Where a pipeline's files are, so that the others find them, and the version that is active: none
-- until the first run has made one.
CREATE TABLE pipelines (
    org            varchar(64) NOT NULL,
    project        varchar(255) NOT NULL,
    active_version varchar(64),
    commit_id      uuid REFERENCES commits (id),
    home           text NOT NULL,
    warehouse      text NOT NULL,
    PRIMARY KEY (org, project),
    FOREIGN KEY (org, project, active_version) REFERENCES pipeline_versions (org, project, hash),
    CHECK ((active_version IS NULL) = (commit_id IS NULL))
);
CREATE TABLE plans (
    id         uuid PRIMARY KEY,
    seq        bigint GENERATED ALWAYS AS IDENTITY,
    org        varchar(64) NOT NULL,
    project    varchar(255) NOT NULL,
    actor      varchar(255) NOT NULL,
    content    jsonb NOT NULL,
    commit_id  uuid REFERENCES commits (id),              -- set when the plan is applied
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What was replaced, and what was made from it and not made again since.
CREATE TABLE invalidations (
    id           uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    dataset_id   uuid NOT NULL REFERENCES datasets (id),
    ordinal      integer NOT NULL,                        -- the version it is about
    scope        varchar(10) NOT NULL CHECK (scope IN ('whole', 'partition')),
    partition    varchar(255),
    reason       varchar(20) NOT NULL CHECK (reason IN ('replaced', 'upstream', 'restored', 'removed')),
    caused_by    uuid REFERENCES invalidations (id),
    commit_id    uuid NOT NULL REFERENCES commits (id),
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    processed_at timestamptz,
    CHECK ((scope = 'partition') = (partition IS NOT NULL)),
    CHECK ((reason = 'upstream') = (caused_by IS NOT NULL))
);
CREATE INDEX idx_invalidations_open ON invalidations (dataset_id) WHERE processed_at IS NULL;

-- The tables of Iceberg's SQL catalog, updated in the same transaction as our own pointers.
CREATE TABLE iceberg_tables (
    catalog_name               varchar(255) NOT NULL,
    table_namespace            varchar(255) NOT NULL,
    table_name                 varchar(255) NOT NULL,
    metadata_location          varchar(1000),
    previous_metadata_location varchar(1000),
    iceberg_type               varchar(5),
    PRIMARY KEY (catalog_name, table_namespace, table_name)
);
CREATE TABLE iceberg_namespace_properties (
    catalog_name   varchar(255) NOT NULL,
    namespace      varchar(255) NOT NULL,
    property_key   varchar(255) NOT NULL,
    property_value varchar(1000) NOT NULL,
    PRIMARY KEY (catalog_name, namespace, property_key)
);
INSERT INTO iceberg_namespace_properties VALUES ('tallyman', 'published', 'exists', 'true');

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'tallyman_app') THEN
        GRANT SELECT, INSERT ON commits, versions, version_fragments, pipeline_versions,
              invalidations, snapshots TO tallyman_app;
        GRANT UPDATE (until) ON version_fragments TO tallyman_app;
        GRANT UPDATE (purged_at) ON versions TO tallyman_app;
        GRANT UPDATE (processed_at) ON invalidations TO tallyman_app;
        GRANT SELECT, INSERT, UPDATE ON datasets, heads, fragments, pipelines, plans TO tallyman_app;
        GRANT SELECT, INSERT, UPDATE, DELETE ON iceberg_tables TO tallyman_app;
        -- Each organisation has a catalog of its own for outside readers.
        GRANT SELECT, INSERT ON iceberg_namespace_properties TO tallyman_app;
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'role tallyman_app could not be given the new tables: the program works as the owner';
END
$$;

-- A role for outside readers: it may read Iceberg's tables of names, and nothing else.
DO $$
BEGIN
    BEGIN
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'tallyman_reader') THEN
            CREATE ROLE tallyman_reader NOLOGIN;
        END IF;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN
        NULL;  -- another database of this server created it at the same time
    END;
    GRANT SELECT ON iceberg_tables, iceberg_namespace_properties TO tallyman_reader;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'role tallyman_reader could not be made: `tallyman db url` says how to make a reader';
END
$$;
