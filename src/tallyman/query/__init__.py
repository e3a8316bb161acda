"""THE READ SIDE. Answers from files with DuckDB; Spark only where `why` must evaluate a join
again."""
