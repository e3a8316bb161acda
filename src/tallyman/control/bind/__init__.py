"""What a run reads, and what it is bound to."""
