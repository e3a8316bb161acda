"""The SQL query in a ledger with which anybody can count the accounted keys in DuckDB.

It is run in the run folder and returns one row per fate and one for all fates: the number of
records that the kept files account for, and the number of distinct keys among them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tallyman.domain.account.fate import Fate
from tallyman.domain.account.ledger import Partition

_ERRORS = (
    "SELECT source_key FROM read_json({files}, format = 'newline_delimited', "
    "hive_partitioning = false, "
    "columns = {{source_key: 'VARCHAR', context: 'MAP(VARCHAR, VARCHAR)'}}) "
    "WHERE context['level'] IS NULL AND starts_with(context['rejection'], '1/')"
)
_PARENTS = "SELECT parent_key AS source_key FROM {files} WHERE child_key = parent_key || '/0'"
_KEYS = "SELECT source_key FROM {files}"
_DIGESTS = "SELECT NULL AS source_key FROM (SELECT unnest(range(record_count)) FROM {files})"


def verification_query(folder: str, partitions: Iterable[Partition], *, keys: bool) -> str:
    """Build the query. `folder` is the target's folder, relative to the run folder.

    `keys` is False if the evidence of groups holds digests: these records can be counted, but their
    keys are not known.
    """
    selects = [
        f"SELECT '{part.fate.value}' AS fate, source_key FROM ({_select(folder, part, keys)})"
        for part in partitions
        if part.digest.count
    ]
    if not selects:
        return "SELECT 'ALL' AS fate, 0 AS records, 0 AS distinct_keys"
    return (
        "SELECT coalesce(fate, 'ALL') AS fate, count(*) AS records, "
        f"count(DISTINCT source_key) AS distinct_keys FROM ({' UNION ALL '.join(selects)}) "
        "GROUP BY GROUPING SETS ((fate), ()) ORDER BY fate"
    )


def _select(folder: str, part: Partition, keys: bool) -> str:
    place = f"{folder}/{part.location.rstrip('/')}"
    if part.fate is Fate.ERROR:
        return _ERRORS.format(files=_text(f"{place}/**/*.jsonl"))
    files = f"read_parquet({_text(f'{place}/**/*.parquet')}, hive_partitioning = false)"
    if part.fate is Fate.PASSED:
        return _passed(files, part)
    if part.fate is Fate.EXPLODED:
        return _PARENTS.format(files=files)
    if part.fate is Fate.AGGREGATED and not keys:
        return _DIGESTS.format(files=files)
    return _KEYS.format(files=files)


def _passed(files: str, part: Partition) -> str:
    key = "_tm.key"
    if part.key_columns:
        name = part.key_columns[0].replace('"', '""')
        key = f'coalesce(_tm.key, CAST("{name}" AS VARCHAR))'
    # Rows that a step of a working set added belong to no record.
    return f"SELECT {key} AS source_key FROM {files}" + (
        " WHERE _tm.step IS NULL" if part.marked else ""
    )


def _text(path: str) -> str:
    """Quote a glob in which the folder's own name is taken literally."""
    name, glob = path.split("/**/")
    shown = re.sub(r"([*?\[])", r"[\1]", name).replace("'", "''")
    return f"'{shown}/**/{glob}'"
