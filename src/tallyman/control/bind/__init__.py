"""Bind a run to its inputs, code and configuration."""
