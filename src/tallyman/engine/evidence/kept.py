"""Measurements of what a target keeps: counts and key digests, read back from its files.

The gate compares these numbers with the door, and `verify` takes them again long after the run. Up
to a limit they are read in this process, which takes milliseconds; above it, by Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tallyman.domain.account.ledger import KeyDigest
from tallyman.engine.evidence import kept_by_spark as by_spark
from tallyman.engine.evidence.distinct_groups import DistinctGroups, joined
from tallyman.engine.expressions.column_names import SOURCES, SYSTEM
from tallyman.engine.files import parquet
from tallyman.engine.files.parquet import batches
from tallyman.engine.segment.group_key import PAIR, SOURCE_KEY, WHOLE
from tallyman.engine.spark import digest
from tallyman.engine.spark.spark_hash import digest_of
from tallyman.engine.spark.spark_text import NoSparkText, texts

EVIDENCE = {
    "group": "adjoint/reverse_joins",
    "row": "adjoint/reverse_joins",
    "child": "adjoint/parent_child",
}
"""The folder of a step's evidence, by what the step makes of rows."""
LETTER_BYTES = 64 << 20

WHOLE_GROUP = digest_of(["{}"])
"""The digest of the one group of all rows. It exists even without rows and without evidence."""


def split_folder(output: str) -> str:
    """Name the folder of a split's output below `outputs/`; no step can have such a name."""
    return f"@{output}"


def split_folders(result: Path) -> list[Path]:
    return sorted((result / "outputs").glob(split_folder("*")))


@dataclass(frozen=True, slots=True)
class LetterCounts:
    """Dead letters, counted as records: a record may have several letters."""

    direct: Mapping[int, KeyDigest] = field(default_factory=dict)
    """Rows that failed themselves, by level."""
    sources: Mapping[str, KeyDigest] = field(default_factory=dict)
    """The rows of failed groups, by the step that made the groups."""
    groups: Mapping[str, KeyDigest] = field(default_factory=dict)
    """The failed groups, by the same step."""
    pairs: Mapping[str, KeyDigest] = field(default_factory=dict)
    """Each of these rows together with its group, by the same step."""
    count: int = 0
    promised: int = 0
    """The number of letters that must exist, as stated in the first letter of each record."""
    summary: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class GroupedKeys:
    """The evidence of groups: the rows in them, and the groups."""

    sources: KeyDigest
    groups: KeyDigest


@dataclass(frozen=True, slots=True)
class Children:
    parents: KeyDigest
    children: KeyDigest
    strays: int
    """The number of children with a key that does not begin with their parent's key."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The files of one target, in `folder`. Spark starts only if it is needed."""

    folder: Path
    spark: Callable[[], SparkSession]
    limit: int = parquet.ROWS

    def rows(self, place: str) -> int:
        return parquet.rows_in(self.files(place))

    def keys(self, place: str) -> KeyDigest:
        return self.column(self.files(place), SOURCE_KEY)

    def column(self, files: Sequence[Path], column: str) -> KeyDigest:
        """Digest the texts in one column of some files."""
        if self._many(files):
            return by_spark.keys(self._read(files), column)
        return _sum(digest_of(texts(batch[column])) for batch in batches(files, [column]))

    def grouped(self, place: str) -> GroupedKeys:
        files = self.files(place)
        if not files:
            return GroupedKeys(KeyDigest(), KeyDigest())
        names = pq.read_schema(files[0]).names
        try:
            if self._many(files):
                raise NoSparkText
            if "source_key" in names:
                return _grouped(files)
            return GroupedKeys(_stored(files), _groups(files))
        except NoSparkText:
            return GroupedKeys(*by_spark.grouped(self._read(files)))

    def groups(self, place: str) -> KeyDigest | None:
        """Digest the groups in the evidence of keys, without the keys; None if only Spark can."""
        found = DistinctGroups()
        try:
            for batch in batches(self.files(place), ["group_key"]):
                found.add(batch["group_key"])
                if found.merged > parquet.ROWS:
                    return None
            return found.digest() if len(found) <= parquet.ROWS else None
        except NoSparkText:
            return None

    def pairs(self, place: str) -> KeyDigest:
        """Digest each key together with its group, so that a key in another group is detected."""
        files = self.files(place)
        try:
            if self._many(files):
                raise NoSparkText
            return _sum(
                digest_of(
                    f"{g}{PAIR}{k}"
                    for g, k in zip(_group_texts(b), texts(b["source_key"]), strict=True)
                )
                for b in batches(files, ["group_key", "source_key"])
            )
        except NoSparkText:
            return by_spark.pairs(self._read(files))

    def children(self, place: str) -> Children:
        files = self.files(place)
        if self._many(files):
            return Children(*by_spark.children(self._read(files)))
        found, strays = [KeyDigest(), KeyDigest()], 0
        for batch in batches(files, ["child_key", "parent_key"]):
            made, parents = texts(batch["child_key"]), texts(batch["parent_key"])
            both = list(zip(made, parents, strict=True))
            found[0] += digest_of(parent for child, parent in both if child == f"{parent}/0")
            found[1] += digest_of(made)
            strays += sum(not str(child).startswith(f"{parent}/") for child, parent in both)
        return Children(found[0], found[1], strays)

    def passed(
        self, key_columns: Sequence[str] = (), place: str = "output"
    ) -> dict[str | None, KeyDigest]:
        """Digest the rows of the output by the step that made them; None for rows of records."""
        files = self.files(place)
        try:
            if self._many(files):
                raise NoSparkText
            return _passed(files, key_columns)
        except NoSparkText:
            return by_spark.passed(self._read(files), key_columns)

    @property
    def output_has_keys(self) -> bool:
        """True unless the rows of the output are groups, identified by their own columns."""
        files = self.files("output")
        held = pq.read_schema(files[0]) if files else pa.schema([])
        at = held.get_field_index(SYSTEM)
        return at >= 0 and held.field(at).type.get_field_index("key") >= 0

    def group_rows(self, by: Sequence[str], place: str = "output") -> KeyDigest:
        """Digest the rows of an output of groups, by the columns that identify them."""
        files = self.files(place)
        try:
            if self._many(files):
                raise NoSparkText
            return _sum(
                digest_of(joined(by, [batch[name] for name in by], batch.num_rows))
                for batch in batches(files, list(by))
            )
        except NoSparkText:
            return by_spark.group_rows(self._read(files), by)

    def sources(self) -> KeyDigest | None:
        """Add up the rows of the output's groups, if each group carries their digest."""
        return self._behind("output", SYSTEM, SOURCES)

    def carried(self, place: str) -> KeyDigest | None:
        """Add up the rows of groups that were combined again, from the later step's evidence."""
        return self._behind(place, SOURCES)

    def _behind(self, place: str, *path: str) -> KeyDigest | None:
        files = self.files(place)
        if not files or not _holds(pq.read_schema(files[0]), path):
            return None
        found = KeyDigest()
        for batch in batches(files, [".".join((*path, name)) for name in digest.NAMES]):
            held = batch[path[0]]
            for name in path[1:]:
                held = held.field(name)
            sums = {n: pc.call_function("sum", [held.field(n)]).as_py() for n in digest.NAMES}
            found += digest.of_row(sums)
        return found

    def letters(self) -> LetterCounts:
        files = sorted((self.folder / "errors").rglob("*.jsonl"))
        if sum(file.stat().st_size for file in files) > LETTER_BYTES or (files and not self.limit):
            return LetterCounts(*by_spark.letters(self.spark(), [str(file) for file in files]))
        return _letters(files)

    def many(self, place: str) -> bool:
        """True if there are more rows than this process reads."""
        return self._many(self.files(place))

    def files(self, place: str) -> list[Path]:
        """List Parquet files below a place; folders may have names like files."""
        return sorted(file for file in (self.folder / place).rglob("*.parquet") if file.is_file())

    def _many(self, files: Sequence[Path]) -> bool:
        return parquet.rows_in(files) > self.limit

    def _read(self, files: Sequence[Path]) -> Any:
        return self.spark().read.parquet(*map(str, files))


def _holds(schema: pa.Schema, path: Sequence[str]) -> bool:
    """True if there is a column, or a field within one, of that name."""
    held: Any = pa.struct(list(schema))
    for name in path:
        if not pa.types.is_struct(held) or held.get_field_index(name) < 0:
            return False
        held = held.field(name).type
    return True


def _sum(digests: Iterable[KeyDigest]) -> KeyDigest:
    return sum(digests, KeyDigest())


def _group_texts(batch: pa.RecordBatch) -> list[str]:
    """Compute the key of each row's group."""
    group = batch["group_key"]
    fields = [(field.name, group.field(n)) for n, field in enumerate(group.type)]
    named = [(name, values) for name, values in fields if name != WHOLE]
    return joined([n for n, _ in named], [v for _, v in named], batch.num_rows)


def _grouped(files: Sequence[Path]) -> GroupedKeys:
    sources, groups = KeyDigest(), DistinctGroups()
    for batch in batches(files, ["group_key", "source_key"]):
        sources += digest_of(texts(batch["source_key"]))
        groups.add(batch["group_key"])
    return GroupedKeys(sources, groups.digest())


def _groups(files: Sequence[Path]) -> KeyDigest:
    """Digest the groups in evidence with digests, which has one row for each group."""
    return _sum(digest_of(_group_texts(batch)) for batch in batches(files, ["group_key"]))


def _stored(files: Sequence[Path]) -> KeyDigest:
    return _sum(
        KeyDigest(*(sum(batch[name].to_pylist()) for name in digest.STORED))
        for batch in batches(files, list(digest.STORED))
    )


def _passed(files: Sequence[Path], key_columns: Sequence[str]) -> dict[str | None, KeyDigest]:
    found: dict[str | None, KeyDigest] = {}
    for batch in batches(files, [SYSTEM, *key_columns[:1]]):
        system = batch[SYSTEM]
        own = texts(system.field("key"))
        own = [
            key if there else None
            for key, there in zip(own, system.is_valid().to_pylist(), strict=True)
        ]
        if key_columns:
            known = texts(batch[key_columns[0]])
            own = [key if key is not None else other for key, other in zip(own, known, strict=True)]
        has_step = system.type.get_field_index("step") >= 0
        steps = texts(system.field("step")) if has_step else [None] * batch.num_rows
        by_step: dict[str | None, list[str | None]] = {}
        for step, key in zip(steps, own, strict=True):
            by_step.setdefault(step, []).append(key)
        for step, keys in by_step.items():
            found[step] = found.get(step, KeyDigest()) + digest_of(keys)
    return found


def _letters(files: Sequence[Path]) -> LetterCounts:
    direct: dict[int, list[str]] = {}
    behind: dict[str, list[tuple[str, str]]] = {}
    summary: dict[tuple[str, str], dict[str, Any]] = {}
    count = promised = 0
    for letter in _each(files):
        count += 1
        _summed(summary, letter)
        context = letter["context"]
        place, _, of = context["rejection"].partition("/")
        if place != "1":
            continue
        promised += int(of)
        if "group_key" in context:
            step = context["group_step"]
            behind.setdefault(step, []).append((context["group_key"], letter["source_key"]))
        else:
            direct.setdefault(int(context.get("level", 0)), []).append(letter["source_key"])
    return LetterCounts(
        direct={level: digest_of(keys) for level, keys in direct.items()},
        sources={step: digest_of(key for _, key in pairs) for step, pairs in behind.items()},
        groups={step: digest_of({group for group, _ in pairs}) for step, pairs in behind.items()},
        pairs={step: digest_of(map(PAIR.join, pairs)) for step, pairs in behind.items()},
        count=count,
        promised=promised,
        summary=[summary[place] for place in sorted(summary)],
    )


def _each(files: Sequence[Path]) -> Iterator[dict[str, Any]]:
    for file in files:
        with open(file, "rb") as lines:
            yield from map(json.loads, lines)


def _summed(summary: dict[tuple[str, str], dict[str, Any]], letter: Mapping[str, Any]) -> None:
    place = (letter["error_type"], letter["morphism_path"])
    code, actual = letter["error_code"], letter.get("actual")
    known = summary.setdefault(
        place,
        {
            "error_type": place[0],
            "morphism_path": place[1],
            "count": 0,
            "sample_error_code": code,
            "sample_actual_value": actual,
        },
    )
    known["count"] += 1
    known["sample_error_code"] = min(known["sample_error_code"], code)
    if actual is not None:
        known["sample_actual_value"] = min(actual, known["sample_actual_value"] or actual)
