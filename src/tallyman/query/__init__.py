"""THE READ SIDE. Files and DuckDB; no Spark."""
