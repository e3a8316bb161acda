"""Columns and SQL expressions: how they are built, read, pinned to a clock and redacted."""
