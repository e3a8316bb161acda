"""Rows that a table does not take."""

from __future__ import annotations

from collections.abc import Sequence

from tallyman.errors.base import Conflict, Problem, TallymanError


class InvalidMutation(TallymanError):
    """A mutation that does not say what to do. All mistakes at once, each with its path."""

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
    """One mutation both takes rows away and brings rows in."""

    code = "mixed_mutation"
    exit_code = 2
    hint = "Nothing was read and nothing was written. Send the deletes as a mutation of their own."

    def __init__(self, deletes: Sequence[int], others: Sequence[int]) -> None:
        super().__init__(tuple(deletes), tuple(others))
        self.deletes, self.others = tuple(deletes), tuple(others)

    def __str__(self) -> str:
        deletes, others = (", ".join(map(str, some)) for some in (self.deletes, self.others))
        return (
            f"a delete (statement {deletes}) cannot go together with an insert or an update "
            f"(statement {others})."
        )

    def facts(self) -> dict[str, object]:
        return {**super().facts(), "deletes": list(self.deletes), "others": list(self.others)}


class MutationRefused(TallymanError):
    """Rows that break a rule of their table. `statement` counts from 1; a load has none."""

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
    """Rows were to be added under keys that are already there."""

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
        return f"{which}table {self.dataset}: {self.count:,} key(s) are already there: {shown}"

    def facts(self) -> dict[str, object]:
        rows = {"count": self.count, "samples": list(self.samples)}
        return {**super().facts(), "statement": self.statement, "dataset": self.dataset, **rows}


class TableRedeclared(Conflict):
    """The rows that are there do not fit the table as it is declared now."""

    code = "table_redeclared"
    hint = (
        "Nothing was written. Columns that may be NULL can be added; for anything else declare a "
        "table with another name, or give this one its columns back."
    )

    def __init__(self, table: str, before: str, after: str) -> None:
        super().__init__(table, before, after)
        self.table, self.before, self.after = table, before, after

    def __str__(self) -> str:
        return f"table {self.table!r} holds rows of ({self.before}) but is declared ({self.after})."


class TableWriteFailed(TallymanError):
    """A file could not be read or written."""

    code = "storage_failed"
    retryable = True
    hint = "Nothing was published. Mend the disk, then do it again."

    def __init__(self, tables: str, reason: str) -> None:
        super().__init__(tables, reason)
        self.tables, self.reason = tables, reason

    def __str__(self) -> str:
        return f"{self.tables} could not be written: {self.reason}"
