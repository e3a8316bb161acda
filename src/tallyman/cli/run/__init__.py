"""Run: make results, decide on results that wait for approval, and correct rejected records."""
