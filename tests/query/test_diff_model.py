"""The difference of any two small tables is what plain Python says it is."""

import math
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tallyman.query.diff.diff import Difference, diff
from tests.world.scale import FULL

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("名 'n\"", pa.string()),
        ("x", pa.float64()),
        ("l", pa.list_(pa.int8())),
    ]
)
KEY, *OTHERS = SCHEMA.names
TEXT = st.sampled_from(["", "a", "A", "é", "e\u0301", "名", "🙂", "\0", "'", "NULL"])
FLOAT = st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")])
LIST = st.lists(st.none() | st.integers(0, 1), max_size=2)
Record = tuple[Any, ...]


def records(keys: st.SearchStrategy[int | None]) -> st.SearchStrategy[list[Record]]:
    values = (st.none() | TEXT, st.none() | FLOAT, st.none() | LIST)
    return st.lists(st.tuples(keys, *values), max_size=6)


UNIQUE = records(st.integers(0, 6)).map(lambda rows: list({row[0]: row for row in rows}.values()))
ANY = records(st.none() | st.integers(0, 3))


def plain(value: Any) -> Any:
    """Equal where the difference says equal, and hashable."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return tuple(value) if isinstance(value, list) else value


def model(before: list[Record], after: list[Record]) -> tuple[Any, ...]:
    """The counts, whether the key was used, and changes by column."""
    left = [tuple(map(plain, row)) for row in before]
    right = [tuple(map(plain, row)) for row in after]
    old, new = ({row[0]: row for row in rows} for rows in (left, right))
    usable = (len(old), len(new)) == (len(left), len(right)) and None not in {*old, *new}
    if not usable:
        whole = Counter(left), Counter(right)
        added, removed = (whole[1] - whole[0]).total(), (whole[0] - whole[1]).total()
        return added, removed, 0, len(left) - removed, False, {}
    both = old.keys() & new.keys()
    changed = {k for k in both if old[k] != new[k]}
    columns = {
        name: sum(old[k][n] != new[k][n] for k in both) for n, name in enumerate(OTHERS, start=1)
    }
    totals = len(new.keys() - old.keys()), len(old.keys() - new.keys()), len(changed)
    return *totals, len(both - changed), True, {c: n for c, n in columns.items() if n}


def told(found: Difference) -> tuple[Any, ...]:
    totals = found.added, found.removed, found.changed, found.unchanged
    return *totals, found.by_key, dict(found.changed_by_column)


def written(folder: str, name: str, rows: list[Record]) -> list[str]:
    """Two files, so that a side is more than one."""
    paths = []
    for part in (rows[:2], rows[2:]):
        columns = list(zip(*part, strict=True)) or [()] * len(SCHEMA)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
        paths.append(str(Path(folder) / f"{name}-{len(paths)}.parquet"))
        pq.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), paths[-1])
    return paths


@settings(max_examples=500 if FULL else 50, deadline=None)
@given(before=UNIQUE | ANY, after=UNIQUE | ANY)
def test_the_difference_is_what_plain_python_says(
    before: list[Record], after: list[Record]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sides = written(folder, "before", before), written(folder, "after", after)
        found = diff(*sides, key=[KEY], limit=100)
    expected = model(before, after)
    event(f"by key: {found.by_key}")
    assert told(found) == expected
    kinds = Counter(row.kind for row in found.rows)
    assert (kinds["added"], kinds["removed"], kinds["changed"]) == expected[:3]
    by_column = Counter(column for row in found.rows for column in row.columns)
    assert by_column == Counter(expected[5])
    gone = Counter(tuple(map(plain, row.before.values())) for row in found.rows if row.before)
    come = Counter(tuple(map(plain, row.after.values())) for row in found.rows if row.after)
    patched = Counter(tuple(map(plain, row)) for row in before) - gone + come
    assert patched == Counter(tuple(map(plain, row)) for row in after)
