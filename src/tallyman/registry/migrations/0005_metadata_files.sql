-- The Iceberg files of a version, so that `verify` also finds damage in them.

ALTER TABLE versions ADD metadata_files jsonb;   -- [{path, sha256, bytes}]; NULL: from before this column
