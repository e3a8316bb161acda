"""One run, from start to report."""
