"""Errors about stored pipeline versions."""

from __future__ import annotations

from collections.abc import Sequence

from tallyman.errors.base import TallymanError


class PlanDamaged(TallymanError):
    code = "plan_damaged"
    hint = "Nothing was run. Restore the row of pipeline_versions from a backup of the database."
    text = (
        "the stored plan of pipeline version {version:.12} was changed: its hash is {found:.12} "
        "now."
    )
    version: str
    found: str


class VersionAmbiguous(TallymanError):
    """Several pipeline versions begin with the given prefix."""

    code = "version_ambiguous"
    exit_code = 2
    hint = "Give more digits. `tallyman pipeline-versions` lists all versions."
    wanted: str
    found: Sequence[str]

    def __str__(self) -> str:
        shown = ", ".join(one[:12] for one in self.found[:5])
        more = ", …" if len(self.found) > 5 else ""
        count = len(self.found)
        return f"{count} pipeline versions begin with {self.wanted!r}: {shown}{more}."
