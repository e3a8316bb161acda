"""Publish: change what readers see, one commit at a time, and what datasets are called."""
