"""The Spark session, its settings and mode, and small building blocks."""
