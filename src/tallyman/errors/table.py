"""Errors about writing to a table."""

from __future__ import annotations

from collections.abc import Sequence

from tallyman.errors.base import Conflict, Problem, TallymanError


class InvalidMutation(TallymanError):
    """A mutation has mistakes; all are reported together, each with its path."""

    code = "invalid_mutation"
    exit_code = 2
    hint = "Nothing was written."

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(tuple(problems))
        self.problems = tuple(problems)

    def __str__(self) -> str:
        count = len(self.problems)
        head = f"{count} mistake{'s' if count != 1 else ''} in the mutation"
        return "\n".join([head, *(f"  {problem}" for problem in self.problems)])

    def facts(self) -> dict[str, object]:
        listed = [
            {"where": p.where, "message": p.message, "nearest": p.nearest} for p in self.problems
        ]
        return {**super().facts(), "problems": listed}


class MixedMutation(TallymanError):
    """One mutation both deletes rows and inserts or updates rows."""

    code = "mixed_mutation"
    exit_code = 2
    hint = "Nothing was read and nothing was written. Send the deletes as a separate mutation."

    def __init__(self, deletes: Sequence[int], others: Sequence[int]) -> None:
        super().__init__(tuple(deletes), tuple(others))
        self.deletes, self.others = tuple(deletes), tuple(others)

    def __str__(self) -> str:
        deletes, others = (", ".join(map(str, some)) for some in (self.deletes, self.others))
        return (
            f"a delete (statement {deletes}) cannot be in the same mutation as an insert or an "
            f"update (statement {others})."
        )

    def facts(self) -> dict[str, object]:
        return {**super().facts(), "deletes": list(self.deletes), "others": list(self.others)}


class MutationRefused(TallymanError):
    """Rows break a rule of their table. `statement` counts from 1; it is None for a load."""

    code = "mutation_refused"
    hint = "Nothing was written."

    def __init__(
        self,
        dataset: str,
        rule: str,
        count: int,
        samples: Sequence[str],
        statement: int | None = None,
    ) -> None:
        super().__init__(dataset, rule, count, tuple(samples), statement)
        self.dataset, self.rule, self.count = dataset, rule, count
        self.samples, self.statement = tuple(samples), statement

    def __str__(self) -> str:
        which = "" if self.statement is None else f"statement {self.statement}, "
        shown = "; ".join(self.samples)
        return f"{which}table {self.dataset}: {self.count:,} row(s) break {self.rule}: {shown}"

    def facts(self) -> dict[str, object]:
        rows = {"rule": self.rule, "count": self.count, "samples": list(self.samples)}
        return {**super().facts(), "statement": self.statement, "dataset": self.dataset, **rows}


class KeyConflict(Conflict):
    """Inserted rows have keys that the table already has."""

    code = "key_conflict"
    hint = "Nothing was written. Update the rows instead, or load with mode merge."

    def __init__(
        self, dataset: str, count: int, samples: Sequence[str], statement: int | None = None
    ) -> None:
        super().__init__(dataset, count, tuple(samples), statement)
        self.dataset, self.count, self.samples = dataset, count, tuple(samples)
        self.statement = statement

    def __str__(self) -> str:
        which = "" if self.statement is None else f"statement {self.statement}, "
        shown = "; ".join(self.samples)
        return f"{which}table {self.dataset}: {self.count:,} key(s) already exist: {shown}"

    def facts(self) -> dict[str, object]:
        rows = {"count": self.count, "samples": list(self.samples)}
        return {**super().facts(), "statement": self.statement, "dataset": self.dataset, **rows}


class TableRedeclared(Conflict):
    """The stored rows do not fit the table as it is declared now."""

    code = "table_redeclared"
    hint = (
        "Nothing was written. Only nullable columns can be added to a table; for any other change "
        "declare a table with another name, or restore the columns of this one."
    )

    def __init__(self, table: str, before: str, after: str) -> None:
        super().__init__(table, before, after)
        self.table, self.before, self.after = table, before, after

    def __str__(self) -> str:
        return (
            f"table {self.table!r} has rows with ({self.before}), but it is declared as "
            f"({self.after})."
        )


class TableWriteFailed(TallymanError):
    """A file of a table could not be read or written."""

    code = "storage_failed"
    retryable = True
    hint = "Nothing was published. Repair the disk, then repeat the command."

    def __init__(self, tables: str, reason: str) -> None:
        super().__init__(tables, reason)
        self.tables, self.reason = tables, reason

    def __str__(self) -> str:
        return f"{self.tables} could not be written: {self.reason}"
