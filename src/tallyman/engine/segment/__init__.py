"""One pass over the rows: each carries its key, where it ended and why."""
