"""The trace of a working set, read back by row and by step."""
