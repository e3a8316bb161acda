"""Runs, their targets, and all decisions about them."""
