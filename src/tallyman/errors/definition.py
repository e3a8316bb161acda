"""Errors in the definition of a pipeline."""

from __future__ import annotations

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
