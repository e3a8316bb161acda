"""Operate: look after the database and the disk."""
