"""Several pipelines in one database."""
