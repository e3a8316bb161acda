"""Runs by tasks: assigned to workers, recorded, published and closed by servers."""
