"""The end of a run: its report, exports and decisions, and the cleanup of runs whose process
died."""
