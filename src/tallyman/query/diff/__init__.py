"""Comparison of two versions or two runs."""
