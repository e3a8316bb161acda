"""Operate: maintain the database and free disk space."""
