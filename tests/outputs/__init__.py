"""Datasets that an asset publishes next to its own: its rejections, and parts of its rows."""
