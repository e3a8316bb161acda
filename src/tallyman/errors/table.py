"""Errors about writing to a table."""

from __future__ import annotations

from collections.abc import Sequence

from tallyman.errors.base import Conflict, Mistakes, TallymanError


class InvalidMutation(Mistakes):
    """A mutation has mistakes; all are reported together, each with its path."""

    code = "invalid_mutation"
    hint = "Nothing was written."
    written = "mutation"


class MixedMutation(TallymanError):
    code = "mixed_mutation"
    exit_code = 2
    hint = "Nothing was read and nothing was written. Send the deletes as a separate mutation."
    text = (
        "a delete (statement {deletes}) cannot be in the same mutation as an insert or an update "
        "(statement {others})."
    )
    deletes: Sequence[int]
    others: Sequence[int]

    def facts(self) -> dict[str, object]:
        return {**super().facts(), "deletes": list(self.deletes), "others": list(self.others)}


class MutationRefused(TallymanError):
    """Rows break a rule of their table. `statement` counts from 1; it is None for a load."""

    code = "mutation_refused"
    hint = "Nothing was written."
    dataset: str
    rule: str
    count: int
    samples: Sequence[str]
    statement: int | None = None

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
    dataset: str
    count: int
    samples: Sequence[str]
    statement: int | None = None

    def __str__(self) -> str:
        which = "" if self.statement is None else f"statement {self.statement}, "
        shown = "; ".join(self.samples)
        return f"{which}table {self.dataset}: {self.count:,} key(s) already exist: {shown}"

    def facts(self) -> dict[str, object]:
        rows = {"count": self.count, "samples": list(self.samples)}
        return {**super().facts(), "statement": self.statement, "dataset": self.dataset, **rows}


class TableRedeclared(Conflict):
    code = "table_redeclared"
    hint = (
        "Nothing was written. Only nullable columns can be added to a table; for any other change "
        "declare a table with another name, or restore the columns of this one."
    )
    text = "table {table!r} has rows with ({before}), but it is declared as ({after})."
    table: str
    before: str
    after: str


class TableWriteFailed(TallymanError):
    code = "storage_failed"
    retryable = True
    hint = "Nothing was published. Repair the disk, then repeat the command."
    text = "{tables} could not be written: {reason}"
    tables: str
    reason: str
