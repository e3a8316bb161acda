"""Defects that are known and not fixed yet: verbs leave out what they concern. To be empty."""

KNOWN: dict[str, str] = {
    "replay of several targets": "ends in an exception after it has published",
    "replay of a run that appended nothing": "is refused as outdated",
}
