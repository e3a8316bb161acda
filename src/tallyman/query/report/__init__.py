"""The report of a run: its flow, rules and assets."""
