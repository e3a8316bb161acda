"""What a run left, read file by file as a stranger would: DuckDB, pyarrow and json."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.oracle.account import Letter, group_text

CONTEXT = ("entity", "field", "step", "level", "group_key")
PLACED = re.compile(r"@(warehouse/.+\.parquet)#(\d+)((?:/\d+)*)")
FATES = {"PASS_THROUGH": "PASSED"}


@dataclass(frozen=True)
class Found:
    """One target of a run."""

    home: Path
    folder: Path

    @cached_property
    def ledger(self) -> Any:
        return json.loads((self.folder / "ledger.json").read_text())

    @cached_property
    def raw_letters(self) -> list[dict[str, Any]]:
        files = sorted((self.folder / "errors").glob("error_type=*/*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def letters(self) -> list[Letter]:
        return [
            Letter(
                self.key(row["source_key"]),
                *(row[name] for name in ("error_type", "morphism_path", "expected", "actual")),
                row["error_code"],
                *(row["context"].get(name) for name in CONTEXT),
            )
            for row in self.raw_letters
        ]

    def filtered(self) -> Counter[tuple[str, str]]:
        rows = self._evidence("filtered_keys")
        return Counter((step, self.key(row["source_key"])) for step, row in rows)

    def groups(self) -> Counter[tuple[str, str, str]]:
        rows = self._evidence("reverse_joins")
        return Counter(
            (step, group_text(row["group_key"]), self.key(row["source_key"])) for step, row in rows
        )

    def children(self) -> Counter[tuple[str, str, str]]:
        rows = self._evidence("parent_child")
        return Counter(
            (step, self.key(row["child_key"]), self.key(row["parent_key"])) for step, row in rows
        )

    def _evidence(self, kind: str) -> list[tuple[str, dict[str, Any]]]:
        found = []
        for place in sorted((self.folder / "adjoint" / kind).glob("*.parquet")):
            step = place.name.removesuffix(".parquet")
            for file in sorted(place.rglob("*.parquet")):
                if file.is_file():
                    found += [(step, row) for row in pq.ParquetFile(file).read().to_pylist()]
        return found

    def passed(self) -> Counter[tuple[str | None, Any]]:
        """The key of every row of the output, and the row."""
        [columns] = [p.get("key_columns") for p in self._passing()] or [None]
        found: Counter[tuple[str | None, Any]] = Counter()
        for file in sorted((self.folder / "output").glob("*.parquet")):
            for row in pq.ParquetFile(file).read().to_pylist():
                system = row.pop("_tm", None)
                key = system.get("key") if system else None
                if key is None and columns:
                    key = str(row[columns[0]])
                found[self.key(key) if key else None, exact(row)] += 1
        return found

    def _passing(self) -> list[Any]:
        levels = [self.ledger["output_accounting"], *self.ledger["sub_ledgers"]]
        parts = [part for level in levels for part in level["partitions"]]
        return [p for p in parts if p["partition_type"] == "PASS_THROUGH"][:1]

    def partitions(self) -> Counter[tuple[str, str]]:
        return _counted(self.ledger["output_accounting"])

    def sub_ledgers(self) -> list[tuple[str, str, int, Counter[tuple[str, str]]]]:
        return [
            (sub["opened_by"], sub["unit"], sub["units_in"], _counted(sub))
            for sub in self.ledger["sub_ledgers"]
        ]

    # ---- keys --------------------------------------------------------------------------------

    def key(self, text: str) -> str:
        """A row of a dataset that has no key is called after its file: here, after its tag."""
        placed = PLACED.fullmatch(text)
        if not placed:
            return text
        return f"@{self._tags(placed[1])[int(placed[2]) - 1]}{placed[3]}"

    def _tags(self, file: str) -> list[str]:
        if file not in _TAGS.setdefault(self.home, {}):
            _TAGS[self.home][file] = pq.read_table(self.home / file)["tag"].to_pylist()
        return _TAGS[self.home][file]


_TAGS: dict[Path, dict[str, list[str]]] = {}
"""Files of versions never change, so that they are read once."""


def _counted(account: Mapping[str, Any]) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for part in account["partitions"]:
        fate = FATES.get(part["partition_type"], part["partition_type"])
        step = Path(part["adjoint_location"]).name.removesuffix(".parquet")
        found[fate, "" if fate in ("PASSED", "ERROR") else step] += part["record_count"]
    return +found


def exact(value: Any) -> Any:
    """Comparable and hashable; equal only if the types are."""
    match value:
        case dict():
            return tuple((name, exact(part)) for name, part in value.items())
        case list():
            return tuple(map(exact, value))
        case Decimal():
            return "decimal", value.as_tuple()
    return type(value).__name__, value
