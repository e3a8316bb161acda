"""Run: make results, decide on those that wait, and correct records that were rejected."""
