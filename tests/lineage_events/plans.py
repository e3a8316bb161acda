"""Plans to read lineage from: small ones, and two whole pipelines."""

from __future__ import annotations

import re
from pathlib import Path

from tallyman.control.compile.compiling import compile_folder
from tallyman.domain.definition.column_lineage import ColumnLineage, Origin
from tallyman.domain.pipeline.pipeline import Pipeline
from tests.trace import general_ledger

AIRLINE = Path(__file__).parents[2] / "examples" / "airline" / "pipelines"


def airline() -> Pipeline:
    return compile_folder(AIRLINE).pipeline()


def ledger_close(home: Path, form: str = "python") -> Pipeline:
    general_ledger.write(home, form)
    return compile_folder(home / "pipelines").pipeline()


def columns_of(pipeline: Pipeline) -> dict[str, list[str]]:
    """By source, from its declared schema."""
    found = {}
    for name, source in pipeline.sources.items():
        plain = re.sub(r"\([^)]*\)", "", source.schema or "")
        found[name] = [part.split()[0] for part in plain.split(",")]
    return found


def shown(lineage: ColumnLineage) -> tuple[dict[str, set[str]], set[str]]:
    """`input.column WAY`, for each column and for the rows."""
    columns = {name: set(map(_text, origins)) for name, origins in lineage.columns.items()}
    return columns, set(map(_text, lineage.rows))


def _text(origin: Origin) -> str:
    return f"{origin.input}.{origin.column} {origin.way}"
