"""Publish: change what readers see, one commit at a time, and rename or hide datasets."""
