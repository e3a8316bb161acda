"""Rejections as rows of a dataset, made from the dead letters of a target without Spark."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tallyman.engine.files.duck import connect, text
from tallyman.engine.files.vouched import Vouched
from tallyman.engine.readback.dead_letters import READ, files_in
from tallyman.engine.readback.rejected_columns import COLUMNS, PARTITION
from tallyman.engine.table.file import write_file

SCHEMA = pa.schema([pa.field(name, pa.string()) for name in COLUMNS])
BATCH = 50_000

# A sum does not depend on the order of the rows, and counts a repeated row twice.
_DIGEST = """
    SELECT count(*), coalesce(sum(md5_number_lower(row)), 0),
           coalesce(sum(md5_number_upper(row)), 0)
    FROM (SELECT to_json(r)::VARCHAR AS row FROM rejected r)
"""


@dataclass(frozen=True, slots=True)
class RejectedRows:
    """The rejections of one target, written to a file."""

    file: Path
    rows: int
    digest: str


def write_rejected(home: Path, place: Path, partition: str | None, folder: Path) -> RejectedRows:
    """Write the dead letters in a target's folder as one Parquet file. RunDamaged if they are not
    what its ledger lists."""
    Vouched(home).check(place, "errors")
    with connect() as connection:
        connection.execute(f"CREATE VIEW rejected AS {_rejected(files_in(place), partition)}")
        [sums] = connection.execute(_DIGEST).fetchall()
        # A view: the rows go from file to file, a few at a time.
        written = write_file(folder, SCHEMA, connection.sql("FROM rejected").to_arrow_reader(BATCH))
    listed = "|".join([*COLUMNS, *map(str, sums)])
    return RejectedRows(written, int(sums[0]), hashlib.sha256(listed.encode()).hexdigest())


def _rejected(files: list[str], partition: str | None) -> str:
    if not files:
        return f"SELECT {', '.join(f'NULL::VARCHAR AS {name}' for name in COLUMNS)} WHERE false"
    own = "NULL" if partition is None else text(partition)
    values = COLUMNS | {PARTITION: own}
    chosen = ", ".join(f"{value}::VARCHAR AS {name}" for name, value in values.items())
    read = READ.replace("$files", f"[{', '.join(map(text, files))}]")
    return f"SELECT {chosen} FROM {read}"
