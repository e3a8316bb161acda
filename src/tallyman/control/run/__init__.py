"""One run, from its beginning to its report."""
