"""Runs that cannot be compared with the present."""

from __future__ import annotations

from tallyman.errors.base import TallymanError


class NotBound(TallymanError):
    """The run's manifest does not say what it was made of."""

    code = "not_bound"
    hint = "Runs made from now on are bound to all three: run it again, then ask about that run."

    def __init__(self, run: str, version: str) -> None:
        super().__init__(run, version)
        self.run, self.version = run, version

    def __str__(self) -> str:
        return (
            f"run {self.run} has a manifest of version {self.version}, written before manifests "
            "bound config, code and inputs: there is nothing to compare with. Nothing was changed."
        )
