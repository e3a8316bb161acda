"""The seal of a run: hash, chain and signature."""
