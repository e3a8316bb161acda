"""Tables that people change by hand, in DuckDB and without Spark."""
