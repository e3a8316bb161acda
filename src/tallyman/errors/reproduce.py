"""Errors about runs that cannot be compared with the present."""

from __future__ import annotations

from tallyman.errors.base import TallymanError


class NotBound(TallymanError):
    code = "not_bound"
    hint = "New runs are bound to all three: run it again, then ask about the new run."
    text = (
        "run {run} has a manifest of version {version}, written before manifests bound config, "
        "code and inputs: there is nothing to compare with. Nothing was changed."
    )
    run: str
    version: str
