"""Errors in the definition of a pipeline."""

from __future__ import annotations

from collections.abc import Sequence

from tallyman.errors.base import Problem, TallymanError


class DefinitionError(TallymanError):
    """The pipeline definition has mistakes; all are reported together, before data is read."""

    code = "definition_error"
    exit_code = 2
    hint = "Nothing was read and nothing was written."

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(problems)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        count = len(self.problems)
        head = f"{count} mistake{'s' if count != 1 else ''} in the pipeline definition"
        return "\n".join([head, *(f"  {problem}" for problem in self.problems)])

    def facts(self) -> dict[str, object]:
        listed = [
            {"where": p.where, "message": p.message, "nearest": p.nearest} for p in self.problems
        ]
        return {**super().facts(), "problems": listed}


class UnaccountableOperation(TallymanError):
    """An operation on a Frame with an effect on rows that cannot be recorded row by row."""

    code = "unaccountable_operation"
    exit_code = 2
    hint = "Nothing was read and nothing was written."

    def __init__(self, operation: str, alternative: str) -> None:
        super().__init__(operation, alternative)
        self.operation = operation
        self.alternative = alternative

    def __str__(self) -> str:
        return f"{self.operation} cannot be accounted for row by row. {self.alternative}"


class UnpublishableType(TallymanError):
    """An output has a column type that Iceberg does not have."""

    code = "unpublishable_type"
    exit_code = 2
    hint = "Cast the column in the asset, for example to a string."

    def __init__(self, dataset: str, reason: str) -> None:
        super().__init__(dataset, reason)
        self.dataset, self.reason = dataset, reason

    def __str__(self) -> str:
        return f"dataset {self.dataset!r} cannot be published as an Iceberg table: {self.reason}"
