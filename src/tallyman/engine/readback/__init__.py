"""Records and evidence of past runs, read back with DuckDB."""
