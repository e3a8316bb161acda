"""THE READ SIDE. Files and DuckDB; Spark only where `why` has to join again."""
