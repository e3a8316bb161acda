"""Segments: one pass over the rows, each with its key, where it ended, and why."""
