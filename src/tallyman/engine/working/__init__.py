"""Working sets: rows changed in place, and the trace of their changes."""
