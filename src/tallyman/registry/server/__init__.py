"""The embedded PostgreSQL: its folder, its process and its address."""
