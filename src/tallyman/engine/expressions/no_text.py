"""The refusal of a Column that has no text in SQL."""

from __future__ import annotations


class NoText(Exception):
    """A Column cannot be written as SQL: why, and what to write instead."""
