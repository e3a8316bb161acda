"""Errors about runs that cannot be compared with the present."""

from __future__ import annotations

from tallyman.errors.base import TallymanError


class NotBound(TallymanError):
    """The run's manifest does not say what the run was bound to."""

    code = "not_bound"
    hint = "New runs are bound to all three: run it again, then ask about the new run."

    def __init__(self, run: str, version: str) -> None:
        super().__init__(run, version)
        self.run, self.version = run, version

    def __str__(self) -> str:
        return (
            f"run {self.run} has a manifest of version {self.version}, written before manifests "
            "bound config, code and inputs: there is nothing to compare with. Nothing was changed."
        )
