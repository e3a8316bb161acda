"""Walks: the origin of a row of a dataset, and what became of a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from tallyman.domain.history.asked_row import AskedRow


def _plain(value: object) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        named = {
            f.metadata.get("key", f.name): _plain(getattr(value, f.name)) for f in fields(value)
        }
        return {name: shown for name, shown in named.items() if shown not in (None, [])}
    if isinstance(value, Mapping):
        return {str(name): _plain(shown) for name, shown in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value


class Answer:
    """An answer as JSON, without unknown values and empty lists."""

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = _plain(self)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A row of a file. `line` is the line of a text or the row of a Parquet file, counted from 1;
    `last_line` is given if the record has more than one.
    """

    key: str | None
    values: Mapping[str, Any] = field(default_factory=dict)
    file: str | None = None
    line: int | None = None
    last_line: int | None = None

    @property
    def place(self) -> str | None:
        if self.file is None:
            return None
        until = "" if self.last_line is None else f"-{self.last_line}"
        return f"{self.file}:{self.line}{until}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction(Answer):
    """What a person changed in a record before it was replayed: `from` and `to` by column. Without
    `from`, the source had changed since, and the record could not be read."""

    source_key: str
    corrected_by: str
    corrected_at: str
    changed: Mapping[str, Mapping[str, Any]]

    @property
    def values(self) -> str:
        """The columns as text, before and after."""
        return ", ".join(
            f"{name}: {' → '.join(_said(one[side]) for side in ('from', 'to') if side in one)}"
            for name, one in self.changed.items()
        )

    def __str__(self) -> str:
        by = f"{self.corrected_by} on {self.corrected_at}"
        return f"{self.source_key} was corrected by {by}: {self.values}"


def _said(value: object) -> str:
    return "NULL" if value is None else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkCounts:
    """A step on the way back, and the number of its rows that the walk follows."""

    step: str
    did: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A joined reference, and its rows that matched the records shown."""

    step: str
    on: str
    origin: RecordOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOrigin(Answer):
    """The records of one input; `hops` lead further back if the input is an asset's dataset."""

    name: str
    kind: str
    count: int | None = None
    version: int | None = None
    commit: str | None = None
    committed_by: str | None = None
    not_shown: str | None = None
    """Why the records cannot be shown as the run read them."""
    files: Mapping[str, int] = field(default_factory=dict)
    records: tuple[Record, ...] = ()
    corrections: tuple[Correction, ...] = ()
    """The corrections of a replay: with them, not as in their files, the run read the records."""
    keys: tuple[str, ...] = ()
    hops: tuple[Hop, ...] = ()
    by_plan: bool | None = None
    """True if rows of a reference are shown as the plan gives them: no file identifies them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop(Answer):
    """Rows of a dataset that one run made, and their inputs."""

    dataset: str
    version: int | None
    asset: str
    partition: str | None
    run: str
    folder: str
    rows: int
    pipeline: str | None = None
    """The pipeline that made the rows, if it is another one."""
    shown: tuple[Mapping[str, Any], ...] = ()
    steps: tuple[WalkCounts, ...] = ()
    records: int = 0
    recomputed: bool = field(default=False, metadata={"key": "replayed"})
    inputs: tuple[RecordOrigin, ...] = ()
    joins: tuple[Joined, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Why(Answer):
    dataset: str
    version: int
    row: AskedRow
    rows: int
    hops: tuple[Hop, ...] = ()
    commit: str | None = None
    committed_by: str | None = None
    records: tuple[Record, ...] = ()
    """The rows of a table: people wrote them, so the walk ends here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    rule: str
    step: str
    error_type: str
    expected: str
    actual: str
    error_code: str
    source_key: str
    group_key: str | None = None

    @classmethod
    def of_letter(cls, letter: Mapping[str, Any]) -> Rejected:
        """Read a dead letter, as its file has it."""
        return cls(
            rule=letter["morphism_path"],
            step=letter["context"].get("step", ""),
            error_type=letter["error_type"],
            expected=letter["expected"],
            actual=letter["actual"],
            error_code=letter["error_code"],
            source_key=letter["source_key"],
            group_key=letter["context"].get("group_key"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Records that a step left out, with its reason."""

    step: str
    reason: str
    predicate: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Became:
    """The fate of records, or of rows made of them, in one result."""

    asset: str
    partition: str | None
    run: str
    status: str
    role: str
    pipeline: str | None = field(default=None, kw_only=True)
    """The pipeline of the asset, if it is another one."""
    """`record`: accounted for by the asset; `reference`: looked up by the asset's records."""
    dataset: str | None = None
    version: int | None = None
    steps: tuple[WalkCounts, ...] = ()
    rejections: tuple[Rejected, ...] = ()
    filtered: tuple[Ended, ...] = ()
    rows: int = 0
    shown: tuple[Mapping[str, Any], ...] = ()
    joined_by: int | None = None
    other_partitions: int | None = None
    """The number of partitions of the asset that filtered the record out as not theirs."""
    recomputed: bool = field(default=False, metadata={"key": "replayed"})
    notes: tuple[str, ...] = ()
    then: tuple[Became, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Where(Answer):
    source: str
    row: AskedRow
    count: int
    records: tuple[Record, ...] = ()
    became: tuple[Became, ...] = ()
    notes: tuple[str, ...] = ()
