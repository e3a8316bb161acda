"""Columns of a plan: which ones it reads, and where each column of the result comes from."""
