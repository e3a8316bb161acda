-- Several pipelines in one database: organisation and project are part of every key.

ALTER TABLE runs ADD org varchar(64) NOT NULL DEFAULT 'default';
ALTER TABLE runs ALTER org DROP DEFAULT;
ALTER TABLE runs DROP CONSTRAINT runs_name_key;
ALTER TABLE runs ADD CONSTRAINT runs_name_once UNIQUE (org, project, name);
ALTER TABLE runs ADD CONSTRAINT runs_owner UNIQUE (id, org, project);
DROP INDEX idx_runs_started_at;
CREATE INDEX idx_runs_started_at ON runs (org, project, started_at DESC);

-- A result belongs to the pipeline of its run; the foreign key keeps the two from differing.
ALTER TABLE materializations ADD org varchar(64), ADD project varchar(255);
UPDATE materializations m SET org = r.org, project = r.project FROM runs r WHERE r.id = m.run_id;
ALTER TABLE materializations ALTER org SET NOT NULL, ALTER project SET NOT NULL;
ALTER TABLE materializations ADD CONSTRAINT materializations_owner
    FOREIGN KEY (run_id, org, project) REFERENCES runs (id, org, project);
DROP INDEX idx_materializations_asset_partition, idx_materializations_latest;
CREATE INDEX idx_materializations_asset_partition
    ON materializations (org, project, asset_name, partition);
CREATE INDEX idx_materializations_latest
    ON materializations (org, project, asset_name, coalesce(partition, ''), inserted_at DESC)
    INCLUDE (partition, status);

-- An input of another pipeline: the project that made it, and the name that the reader gave it. In
-- both, NULL means that there is nothing special: the project, or the asset name, of the row itself.
ALTER TABLE materializations ADD upstream_projects text[], ADD upstream_inputs text[];
ALTER TABLE materializations
    ADD CHECK (cardinality(upstream_projects) = cardinality(upstream_assets)),
    ADD CHECK (cardinality(upstream_inputs) = cardinality(upstream_assets));

CREATE INDEX idx_materializations_upstream_inputs ON materializations USING gin (upstream_inputs)
    WHERE upstream_inputs IS NOT NULL;

-- 'org, project, asset, partition' for every input, so that one index lookup finds the readers of
-- exactly this one. The separator is a control character, which no name contains.
ALTER TABLE materializations DROP COLUMN upstream_pairs;
DROP FUNCTION input_pairs(text[], text[]);
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
ALTER TABLE materializations ADD upstream_pairs text[] GENERATED ALWAYS AS
    (input_pairs(org, project, upstream_projects, upstream_assets, upstream_partitions)) STORED;
CREATE INDEX idx_materializations_upstream_pairs ON materializations USING gin (upstream_pairs)
    WHERE status = 'success';

CREATE OR REPLACE VIEW lineage_edges AS
    SELECT m.asset_name, m.partition, m.run_id, u.asset AS upstream_asset,
           u.partition AS upstream_partition, u.id AS upstream_materialization,
           m.completed_at AS consumed_at, m.org, m.project,
           coalesce(u.project, m.project) AS upstream_project
    FROM materializations m,
         unnest(m.upstream_assets, m.upstream_partitions, m.upstream_ids, m.upstream_projects)
             AS u (asset, partition, id, project)
    WHERE m.status = 'success';

ALTER TABLE datasets ALTER org DROP DEFAULT;
ALTER TABLE snapshots ALTER org DROP DEFAULT;
ALTER TABLE commits ALTER org DROP DEFAULT;
DROP INDEX idx_commits_project;
CREATE INDEX idx_commits_project ON commits (org, project, seq DESC);

-- One row per pipeline: its commits form a line, and this is its end. Pipelines do not wait for
-- each other: a dataset has one producer.
ALTER TABLE heads ADD project varchar(255);
ALTER TABLE heads DROP CONSTRAINT heads_pkey;
DELETE FROM heads;
INSERT INTO heads (org, project, commit_id)
    SELECT DISTINCT ON (org, project) org, project, id FROM commits
    ORDER BY org, project, seq DESC;
ALTER TABLE heads ADD PRIMARY KEY (org, project);

ALTER TABLE pipeline_versions ADD org varchar(64) NOT NULL DEFAULT 'default';
ALTER TABLE pipeline_versions ALTER org DROP DEFAULT;
ALTER TABLE pipelines DROP CONSTRAINT pipelines_project_active_version_fkey;
ALTER TABLE pipeline_versions DROP CONSTRAINT pipeline_versions_pkey;
ALTER TABLE pipeline_versions ADD PRIMARY KEY (org, project, hash);

-- Where a pipeline's files are, so that the others find them. It is known before a version of the
-- pipeline is active.
ALTER TABLE pipelines ADD org varchar(64) NOT NULL DEFAULT 'default';
ALTER TABLE pipelines ALTER org DROP DEFAULT;
ALTER TABLE pipelines DROP CONSTRAINT pipelines_pkey;
ALTER TABLE pipelines ADD PRIMARY KEY (org, project);
ALTER TABLE pipelines ADD FOREIGN KEY (org, project, active_version)
    REFERENCES pipeline_versions (org, project, hash);
ALTER TABLE pipelines ALTER active_version DROP NOT NULL, ALTER commit_id DROP NOT NULL;
ALTER TABLE pipelines ADD CHECK ((active_version IS NULL) = (commit_id IS NULL));
ALTER TABLE pipelines ADD home text, ADD warehouse text;   -- NULL: not run since this column
ALTER TABLE pipelines ADD CHECK ((home IS NULL) = (warehouse IS NULL));

ALTER TABLE plans ADD org varchar(64) NOT NULL DEFAULT 'default';
ALTER TABLE plans ALTER org DROP DEFAULT;

ALTER TABLE seals ADD org varchar(64) NOT NULL DEFAULT 'default';
ALTER TABLE seals ALTER org DROP DEFAULT;
ALTER TABLE seals DROP CONSTRAINT seals_pkey, DROP CONSTRAINT seals_project_hash_key;
ALTER TABLE seals ADD PRIMARY KEY (org, project, ordinal), ADD UNIQUE (org, project, hash);
DROP INDEX idx_seals_not_placed;
CREATE INDEX idx_seals_not_placed ON seals (org, project) WHERE NOT placed;
DROP TRIGGER seals_do_not_change ON seals;
CREATE TRIGGER seals_do_not_change
    BEFORE UPDATE OF org, project, ordinal, run_id, hash, previous, key_id, body, sealed_at ON seals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_other_seal();

ALTER TABLE lineage_events ADD org varchar(64) NOT NULL DEFAULT 'default';
ALTER TABLE lineage_events ALTER org DROP DEFAULT;
DROP INDEX idx_lineage_events_to_send;
CREATE INDEX idx_lineage_events_to_send ON lineage_events (org, project, id)
    WHERE sent_at IS NULL AND refused_at IS NULL;

-- Entries about a run, or about a project that they name, or in a database with one project, get
-- their owner. The others keep none, and every pipeline lists them.
ALTER TABLE audit_log ADD org varchar(64), ADD project varchar(255);
ALTER TABLE audit_log DISABLE TRIGGER audit_log_is_append_only;
UPDATE audit_log a SET org = r.org, project = r.project FROM runs r WHERE r.id = a.correlation_id;
UPDATE audit_log SET org = 'default', project = details ->> 'project'
    WHERE project IS NULL AND details ->> 'project' IS NOT NULL;
UPDATE audit_log SET org = 'default', project = (SELECT min(project) FROM runs)
    WHERE project IS NULL AND (SELECT count(DISTINCT project) FROM runs) = 1;
ALTER TABLE audit_log ENABLE TRIGGER audit_log_is_append_only;
ALTER TABLE audit_log ADD CHECK ((org IS NULL) = (project IS NULL));
CREATE INDEX idx_audit_log_owner ON audit_log (org, project, id DESC);

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'tallyman_app') THEN
        -- Each organisation has a catalog of its own for outside readers.
        GRANT INSERT ON iceberg_namespace_properties TO tallyman_app;
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'role tallyman_app could not be given the right: the program works as the owner';
END
$$;
