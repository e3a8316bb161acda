"""THE DATA PLANE. Spark and files; never a database."""
