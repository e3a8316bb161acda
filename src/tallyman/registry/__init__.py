"""THE MEMORY: what ran, from which inputs, with which result. PostgreSQL; never Spark."""
