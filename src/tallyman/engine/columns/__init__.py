"""Which columns a plan reads, and where each column of its result comes from."""
