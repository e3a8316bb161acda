"""THE READ SIDE. Answers from files, with DuckDB; with Spark only where `why` repeats a join."""
