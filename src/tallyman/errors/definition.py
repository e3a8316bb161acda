"""Errors in the definition of a pipeline, and about its stored versions."""

from __future__ import annotations

from collections.abc import Sequence

from tallyman.errors.base import Mistakes, TallymanError


class DefinitionError(Mistakes):
    """The pipeline definition has mistakes; all are reported together, before data is read."""

    code = "definition_error"
    hint = "Nothing was read and nothing was written."
    written = "pipeline definition"


class UnaccountableOperation(TallymanError):
    code = "unaccountable_operation"
    exit_code = 2
    hint = "Nothing was read and nothing was written."
    text = "{operation} cannot be accounted for row by row. {alternative}"
    operation: str
    alternative: str


class UnpublishableType(TallymanError):
    code = "unpublishable_type"
    exit_code = 2
    hint = "Cast the column in the asset, for example to a string."
    text = "dataset {dataset!r} cannot be published as an Iceberg table: {reason}"
    dataset: str
    reason: str


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
