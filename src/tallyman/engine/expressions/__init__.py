"""Columns and SQL expressions: building, reading, pinning to a clock, redacting."""
