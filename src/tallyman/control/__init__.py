"""THE DECISIONS. Decide what to do, in which order, and whether the result may be published."""
