"""A project or a database that was made by a Tallyman with other formats."""

from __future__ import annotations

from tallyman.errors.base import TallymanError


class OtherFormat(TallymanError):
    code = "other_format"
    exit_code = 2
    hint = (
        "Nothing of it was changed or deleted; the Tallyman that made it can read it. To use this "
        "one, run the assets again with a new `.tallyman` (move the old folder away) and, if a "
        "database is configured, a new database."
    )

    place: str
    made_by: str

    def __init__(self, place: str, made_by: str) -> None:
        super().__init__(place, made_by)
        self.place, self.made_by = place, made_by

    def __str__(self) -> str:
        return f"{self.place} was made by {self.made_by}."
