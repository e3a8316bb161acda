"""Operate: servers, workers and their tasks, the database, and disk space."""
