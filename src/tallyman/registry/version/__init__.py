"""Datasets, fragments, versions and commits."""
