"""THE MEMORY: what ran, from what, with what result. PostgreSQL through psycopg; never Spark."""
