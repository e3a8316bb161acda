-- The fragment that each input of a result was, in the order of upstream_assets; NULL for a source.
-- A materialization does not identify it: a result may fill several datasets, and a table has none.
ALTER TABLE materializations ADD upstream_fragments uuid[];
ALTER TABLE materializations
    ADD CHECK (cardinality(upstream_fragments) = cardinality(upstream_assets));
CREATE INDEX idx_materializations_upstream_fragments
    ON materializations USING gin (upstream_fragments) WHERE upstream_fragments IS NOT NULL;

-- Each target looks up its own partition, of which there may be thousands.
DROP INDEX idx_fragments_dataset;
CREATE INDEX idx_fragments_partition ON fragments (dataset_id, partition);

-- A table that was read has an entry for each of its fragments.
CREATE OR REPLACE VIEW lineage_edges AS
    SELECT DISTINCT m.asset_name, m.partition, m.run_id, u.asset AS upstream_asset,
           u.partition AS upstream_partition, u.id AS upstream_materialization,
           m.completed_at AS consumed_at, m.org, m.project,
           coalesce(u.project, m.project) AS upstream_project
    FROM materializations m,
         unnest(m.upstream_assets, m.upstream_partitions, m.upstream_ids, m.upstream_projects)
             AS u (asset, partition, id, project)
    WHERE m.status = 'success';
