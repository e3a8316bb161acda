"""What ends a run: its report, exports, decisions, and upkeep of runs whose process is gone."""
