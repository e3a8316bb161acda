"""TERMINAL: parse, call, print."""
