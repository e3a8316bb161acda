"""The Spark session, its settings and mode, and small things made with it."""
