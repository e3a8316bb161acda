"""Files on this machine: listing, hashing, checking, the run folder, DuckDB over them."""
