"""Change what a finished run kept, as nobody but a careful forger would: hashes are not asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

Harm = Callable[[Path], None]


def kept_files(folder: Path) -> Iterator[Path]:
    """One file with rows of every kind and step: output, evidence, dead letters."""
    seen = set[Path]()
    for file in sorted(folder.rglob("part-*")):
        top, second, *_ = file.relative_to(folder).parts
        inside = top in ("output", "adjoint", "errors") or second.startswith("@")
        if inside and file.parent not in seen and _rows(file):
            seen.add(file.parent)
            yield file


def _rows(file: Path) -> int:
    if file.suffix == ".parquet":
        return int(pq.read_metadata(file).num_rows)
    return len(file.read_text(encoding="utf-8").splitlines())


def lose_row(file: Path) -> None:
    if file.suffix == ".parquet":
        pq.write_table(pq.ParquetFile(file).read().slice(1), file)
    else:
        file.write_text("".join(_lines(file)[1:]), encoding="utf-8")


def double_row(file: Path) -> None:
    if file.suffix == ".parquet":
        rows = pq.ParquetFile(file).read()
        pq.write_table(pa.concat_tables([rows, rows.slice(0, 1)]), file)
    else:
        lines = _lines(file)
        file.write_text("".join([*lines, lines[0]]), encoding="utf-8")


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines(keepends=True)
