"""THE DECISIONS. What must be done, in which order, and whether it may be published."""
