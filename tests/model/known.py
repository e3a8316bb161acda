"""Defects that are known and not fixed yet: verbs leave out what they concern. To be empty."""

KNOWN: dict[str, str] = {}
