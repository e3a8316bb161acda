"""Runs, their targets and everything that is decided about them."""
