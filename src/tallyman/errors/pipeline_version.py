"""Errors about stored pipeline versions."""

from __future__ import annotations

from collections.abc import Sequence

from tallyman.errors.base import TallymanError


class PlanDamaged(TallymanError):
    """The stored plan of a pipeline version is not the one that its hash names."""

    code = "plan_damaged"
    hint = "Nothing was run. Restore the row of pipeline_versions from a backup of the database."

    def __init__(self, version: str, found: str) -> None:
        super().__init__(version, found)
        self.version, self.found = version, found

    def __str__(self) -> str:
        return (
            f"the stored plan of pipeline version {self.version[:12]} was changed: its hash is "
            f"{self.found[:12]} now."
        )


class VersionAmbiguous(TallymanError):
    """Several pipeline versions begin with the given prefix."""

    code = "version_ambiguous"
    exit_code = 2
    hint = "Give more digits. `tallyman pipeline-versions` lists all versions."

    def __init__(self, wanted: str, found: Sequence[str]) -> None:
        super().__init__(wanted, found)
        self.wanted, self.found = wanted, tuple(found)

    def __str__(self) -> str:
        shown = ", ".join(one[:12] for one in self.found[:5])
        more = ", …" if len(self.found) > 5 else ""
        count = len(self.found)
        return f"{count} pipeline versions begin with {self.wanted!r}: {shown}{more}."
