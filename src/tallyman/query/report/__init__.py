"""The report of a run: flows, rules and assets."""
