"""Mutations: inserts, updates and deletes on tables, done together or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal

from tallyman.domain.version.table import Table
from tallyman.errors import InvalidMutation, MixedMutation, Problem
from tallyman.errors.wording import nearest

Where = str | Mapping[str, object]
"""A condition in Spark SQL, or columns with the values they must equal; None means IS NULL."""

_SCALARS = (str, int, float, Decimal, date, bytes, type(None))


@dataclass(frozen=True, slots=True)
class Insert:
    into: str
    rows: tuple[Mapping[str, object], ...]

    @property
    def dataset(self) -> str:
        return self.into


@dataclass(frozen=True, slots=True)
class UpdateRows:
    dataset: str
    set: Mapping[str, object]
    where: Where


@dataclass(frozen=True, slots=True)
class DeleteRows:
    dataset: str
    where: Where


Statement = Insert | UpdateRows | DeleteRows


@dataclass(frozen=True, slots=True)
class Mutation:
    """Statements in order; each sees the effects of the earlier ones."""

    statements: tuple[Statement, ...]
    expected_versions: Mapping[str, int] = field(default_factory=dict)
    message: str | None = None

    def __post_init__(self) -> None:
        """Refuse deletes mixed with other statements: a delete must not depend on new rows."""
        kinds = [isinstance(statement, DeleteRows) for statement in self.statements]
        deletes = [number for number, is_delete in enumerate(kinds, 1) if is_delete]
        if deletes and len(deletes) < len(kinds):
            others = [number for number, is_delete in enumerate(kinds, 1) if not is_delete]
            raise MixedMutation(deletes, others)

    @classmethod
    def of(cls, given: object) -> Mutation:
        """Read YAML or JSON: the whole mapping, or only the list of statements."""
        reader = _Reader()
        whole = given if isinstance(given, Mapping) else {"statements": given}
        reader.known("", whole, ("statements", "expected_versions", "message"))
        listed = reader.filled_list("statements", whole.get("statements"))
        read = [reader.statement(f"statements[{i}]", one) for i, one in enumerate(listed)]
        versions = reader.versions(whole.get("expected_versions"))
        message = whole.get("message")
        if message is not None and (not isinstance(message, str) or "\0" in message):
            reader.wrong("message", "give a text", message)
        if reader.problems:
            raise InvalidMutation(reader.problems)
        return cls(
            tuple(one for one in read if one is not None),
            versions,
            message if isinstance(message, str) else None,
        )

    def datasets(self) -> set[str]:
        return {statement.dataset for statement in self.statements}


def where_path(number: int, statement: Statement) -> str:
    """Return the path of a statement's condition in the text; `number` counts from 1."""
    verb = "delete" if isinstance(statement, DeleteRows) else "update"
    return f"statements[{number - 1}].{verb}.where"


def needed(tables: Mapping[str, Table], mutation: Mutation) -> set[str]:
    """List the tables that a mutation needs: those it changes, and those bound by references.

    No other tables, so that independent writers do not conflict.
    """
    problems: list[Problem] = []
    names: set[str] = set()
    for place, statement in enumerate(mutation.statements):
        if statement.dataset not in tables:
            near = nearest(statement.dataset, list(tables))
            message = f"there is no table {statement.dataset!r}"
            problems.append(Problem(f"statements[{place}]", message, near))
        else:
            names |= {statement.dataset, *_bound(tables, statement)}
            names |= _counted(tables, statement.dataset)
    if problems:
        raise InvalidMutation(problems)
    return names


def needed_by_load(tables: Mapping[str, Table], dataset: str, mode: str) -> set[str]:
    """List the tables that a load needs; only an overwrite can remove rows others refer to."""
    names = {dataset, *(reference.table for reference in tables[dataset].references)}
    names |= _counted(tables, dataset)
    return names | set(referrers(tables, dataset)) if mode == "overwrite" else names


def referrers(tables: Mapping[str, Table], dataset: str) -> list[str]:
    return [
        name
        for name, table in tables.items()
        if any(reference.table == dataset for reference in table.references)
    ]


def _counted(tables: Mapping[str, Table], dataset: str) -> set[str]:
    """List tables whose number of references a change of the dataset may leave too small."""
    of_own = {each.table for each in tables[dataset].references if each.at_least}
    of_others = {
        name
        for name, table in tables.items()
        if any(each.table == dataset and each.at_least for each in table.references)
    }
    return of_own | of_others


def _bound(tables: Mapping[str, Table], statement: Statement) -> Iterator[str]:
    table = tables[statement.dataset]
    changed = set(table.names) if isinstance(statement, Insert) else set[str]()
    if isinstance(statement, UpdateRows):
        changed = set(statement.set)
    yield from (reference.table for reference in table.references if reference.column in changed)
    takes_keys = isinstance(statement, UpdateRows) and not changed.isdisjoint(table.key)
    if isinstance(statement, DeleteRows) or takes_keys:
        yield from referrers(tables, statement.dataset)


class _Reader:
    """A reader that turns plain values into statements and collects every mistake."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def wrong(self, path: str, wanted: str, found: object = None) -> None:
        seen = "" if found is None else f", not {found!r:.60}"
        self.problems.append(Problem(path, wanted + seen))

    def known(self, path: str, given: Mapping[object, object], names: Sequence[str]) -> None:
        for key in given:
            if key not in names:
                near = nearest(str(key), names)
                message = f"unknown key; known keys are {', '.join(names)}"
                self.problems.append(Problem(f"{path}.{key}".lstrip("."), message, near))

    def statement(self, path: str, given: object) -> Statement | None:
        kinds = ("insert", "update", "delete")
        if not isinstance(given, Mapping) or len(given) != 1 or next(iter(given)) not in kinds:
            self.wrong(path, "give one of insert, update and delete", given)
            return None
        kind, body = next(iter(given.items()))
        if not isinstance(body, Mapping):
            self.wrong(f"{path}.{kind}", "give a mapping", body)
            return None
        return {"insert": self.insert, "update": self.update, "delete": self.delete}[kind](
            f"{path}.{kind}", body
        )

    def insert(self, path: str, body: Mapping[object, object]) -> Insert:
        self.known(path, body, ("into", "rows"))
        rows = self.filled_list(f"{path}.rows", body.get("rows"))
        read = [self.values(f"{path}.rows[{i}]", row) for i, row in enumerate(rows)]
        return Insert(self.name(f"{path}.into", body.get("into")), tuple(read))

    def update(self, path: str, body: Mapping[object, object]) -> UpdateRows:
        self.known(path, body, ("dataset", "set", "where"))
        name = self.name(f"{path}.dataset", body.get("dataset"))
        values = self.values(f"{path}.set", body.get("set"))
        return UpdateRows(name, values, self.where(f"{path}.where", body.get("where")))

    def delete(self, path: str, body: Mapping[object, object]) -> DeleteRows:
        self.known(path, body, ("from", "where"))
        name = self.name(f"{path}.from", body.get("from"))
        return DeleteRows(name, self.where(f"{path}.where", body.get("where")))

    def name(self, path: str, given: object) -> str:
        if isinstance(given, str) and given:
            return given
        self.wrong(path, "give the name of a table", given)
        return ""

    def where(self, path: str, given: object) -> Where:
        if isinstance(given, str) and given.strip():
            return given
        if isinstance(given, Mapping):
            # An empty mapping would mean every row, which nobody should get by omission.
            return self.values(path, given)
        advice = 'give a condition, or columns with their values; "true" means every row'
        self.wrong(path, advice, given)
        return ""

    def values(self, path: str, given: object) -> Mapping[str, object]:
        if not isinstance(given, Mapping) or not given:
            self.wrong(path, "give columns with their values", given)
            return {}
        for name, value in given.items():
            if not isinstance(name, str):
                self.wrong(path, "the name of a column must be text", name)
            elif not isinstance(value, _SCALARS):
                self.wrong(f"{path}.{name}", "give one plain value", value)
        return {str(name): value for name, value in given.items()}

    def versions(self, given: object) -> dict[str, int]:
        if not isinstance(given, Mapping):
            if given is not None:
                self.wrong("expected_versions", "give tables with their versions", given)
            return {}
        for name, version in given.items():
            if not isinstance(version, int) or isinstance(version, bool) or version < 0:
                self.wrong(f"expected_versions.{name}", "give the number of a version", version)
        return {str(name): version for name, version in given.items() if isinstance(version, int)}

    def filled_list(self, path: str, given: object) -> Sequence[object]:
        if isinstance(given, Sequence) and not isinstance(given, str) and given:
            return given
        self.wrong(path, "give a list with at least one entry", given)
        return []
