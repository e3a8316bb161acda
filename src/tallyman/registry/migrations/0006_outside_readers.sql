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
