-- The Iceberg files of a version, so that `verify` finds damage in them too.

ALTER TABLE versions ADD metadata_files jsonb;   -- [{path, sha256, bytes}]; NULL: older than this
