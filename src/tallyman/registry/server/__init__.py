"""The embedded PostgreSQL server: its folder, its process and its address."""
