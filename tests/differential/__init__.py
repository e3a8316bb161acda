"""The same files read by us and by an independent reader: equal rows, or a refusal."""
