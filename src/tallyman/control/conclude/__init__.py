"""The end of a run: report, exports, decisions, and the cleanup of runs whose process died."""
