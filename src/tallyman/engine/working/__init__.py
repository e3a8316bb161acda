"""Rows that are changed in place, and the trace of their changes."""
