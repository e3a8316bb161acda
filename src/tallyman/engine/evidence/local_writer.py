"""Evidence of few rows, written in this process: the same files as `write` makes with Spark."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tallyman.domain.account.rejection import Rule
from tallyman.engine.evidence.write import LONGEST, TOO_LONG, EvidenceWriter
from tallyman.engine.expressions.column_names import KEY, PART, PLACE, REJECTIONS
from tallyman.engine.files import parquet
from tallyman.engine.segment.cuts import Opened
from tallyman.engine.segment.group_key import GROUP_KEY, SOURCE_KEY, SOURCE_PLACE, WHOLE
from tallyman.engine.spark import digest

LETTERS = 50_000
"""The largest number of rejected records whose dead letters are written here: about a second."""
KEYS: Mapping[str, Any] = {
    "use_dictionary": ["filter_predicate"],
    "column_encoding": {SOURCE_KEY: "DELTA_BYTE_ARRAY", SOURCE_PLACE: "DELTA_BYTE_ARRAY"},
    "write_statistics": False,
}
"""How keys are written: several times smaller than without, and nobody prunes by statistics."""
FILE = "part-00000"


@dataclass(frozen=True, slots=True)
class LocalWriter:
    """Writes what `writer` would write with Spark jobs, to the same places."""

    writer: EvidenceWriter

    # ---- dead letters ------------------------------------------------------------------

    def write_letters(self, failed: Sequence[tuple[int, pa.Table]]) -> None:
        """Write a dead letter for each broken rule of each row. `failed` are rows by level."""
        lines: dict[str, list[str]] = {}
        for level, rows in failed:
            for letter in self._letters(level, rows):
                line = json.dumps(letter, ensure_ascii=False, separators=(",", ":"))
                lines.setdefault(letter["error_type"], []).append(line)
        for kind, listed in lines.items():
            place = self.writer.folder / "errors" / f"error_type={kind}"
            write_lines(listed, place / f"{FILE}.jsonl")

    def _letters(self, level: int, rows: pa.Table) -> Iterator[dict[str, Any]]:
        named = (rows[name].to_pylist() for name in (KEY, PLACE, REJECTIONS))
        for key, place, rejections in zip(*named, strict=True):
            for number, rejection in enumerate(rejections, 1):
                nth = f"{number}/{len(rejections)}"
                rule = self.writer.book.rules[rejection["rule"]]
                yield self._letter(rule, key, rejection["actual"], level, place, nth)

    def _letter(
        self, rule: Rule, key: str, actual: str, level: int, place: str | None, nth: str
    ) -> dict[str, Any]:
        writer = self.writer
        context = {
            "entity": rule.entity,
            "field": rule.field,
            "step": rule.step,
            "asset": writer.book.asset,
            "epoch": writer.partition_label,
            "level": str(level) if level else None,
            "place": place,
            "rejection": nth,
        }
        kind = rule.error_type.value
        long = len(actual) * 4 > LONGEST and len(actual.encode()) > LONGEST
        named = (*writer.named, key or "", place or "", "", rule.path, kind, rule.expected)
        return {
            "source_key": key,
            "error_type": kind,
            "morphism_path": rule.path,
            "expected": rule.expected,
            "actual": f"{len(actual)} {TOO_LONG}" if long else actual,
            "context": {name: value for name, value in context.items() if value is not None},
            "run_id": writer.run.run_id,
            "openlineage_run_id": writer.run.openlineage_run_id,
            "timestamp": writer.run.timestamp,
            "error_code": rule.code,
            "error_id": hashlib.sha256("\x1f".join(named).encode()).hexdigest()[:32],
        }

    # ---- filtered keys and groups --------------------------------------------------------

    def write_filtered(self, rows: Sequence[pa.Table]) -> None:
        """Write keys with the predicate that filtered them, one file per step."""
        dropped = pa.concat_tables(rows, promote_options="permissive")
        placed = not pa.types.is_null(dropped[PLACE].type)
        for part in sorted(set(dropped[PART].to_pylist())):
            ended = self.writer.book.parts[part]
            found = dropped.filter(pc.field(PART) == part)
            columns = {SOURCE_KEY: found[KEY]}
            if placed:
                columns[SOURCE_PLACE] = found[PLACE]
            columns["filter_predicate"] = pa.repeat(ended.predicate, found.num_rows)
            place = self.writer.evidence("filtered_keys", ended.step_id)
            parquet.write(pa.table(columns), place / f"{FILE}.parquet", **KEYS)

    def write_groups(self, opened: Opened) -> None:
        """Write the groups of a stage with the digests of their keys."""
        assert opened.by is not None
        live = opened.stage.live_here()
        fields = {name: _one_zero(live[name]).combine_chunks() for name in opened.by}
        fields = fields or {WHOLE: pa.repeat(True, live.num_rows)}
        groups = pa.StructArray.from_arrays(list(fields.values()), list(fields))
        columns = [groups, *(live[name] for name in digest.NAMES)]
        names = [GROUP_KEY, *digest.STORED]
        place = self.writer.evidence("reverse_joins", opened.step_id)
        parquet.write(pa.table(columns, names=names), place / f"{FILE}.parquet")


def _one_zero(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """-0.0 is in the group of 0.0, so it must read like it."""
    if not pa.types.is_floating(values.type):
        return values
    return pc.call_function("add", [values, pa.scalar(0, values.type)])


def write_lines(lines: Sequence[str], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
