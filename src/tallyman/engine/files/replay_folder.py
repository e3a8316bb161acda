"""The folder of a replay in a result: the chosen keys, the corrected records, what they changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyman.domain.history.walk import Correction
from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    from tallyman.engine.files import duck
else:
    duck = OnDemand("tallyman.engine.files.duck")

FOLDER, KEYS, CORRECTED, FACTS, CHANGES = "replay", "keys", "corrected", "replay.json", "changes"
CHANGE = ("source_key", "corrected_by", "corrected_at", "before", "after")
"""The fields of a change. Before and after are texts of JSON, as decimals are written there."""


def changes_in(folder: Path) -> str | None:
    """Query the changes in a folder of a replay with DuckDB; None if nothing was corrected."""
    files = sorted((folder / CHANGES).glob("*.jsonl"))
    if not files:
        return None
    listed = ", ".join(duck.text(str(file)) for file in files)
    columns = ", ".join(f"{name}: 'VARCHAR'" for name in CHANGE)
    return f"read_json([{listed}], format = 'newline_delimited', columns = {{{columns}}})"


def changed_records(folder: Path, at: str, limit: int) -> tuple[int, list[dict[str, Any]]]:
    """Count the records corrected at one instant, and list the first changes by key."""
    if (changes := changes_in(folder)) is None:
        return 0, []
    with duck.connect() as connection:
        given = {"at": at}
        found = f"FROM {changes} WHERE corrected_at = $at"
        [[count]] = connection.execute(f"SELECT count(*) {found}", given).fetchall()
        few = f"SELECT {', '.join(CHANGE)} {found} ORDER BY source_key LIMIT {limit}"
        return count, duck.dicts(connection.execute(few, given))


def corrections_of(
    rows: Iterable[Mapping[str, Any]], hidden: Callable[[str], bool] = lambda _: False
) -> tuple[Correction, ...]:
    """Compare before and after. Lines that changed no value, and hidden columns, are left out."""
    found = []
    for row in rows:
        before, after = (
            json.loads(row[side] or "{}", parse_float=Decimal) for side in ("before", "after")
        )
        known = row["before"] is not None
        changed = {
            name: {**({"from": before.get(name)} if known else {}), "to": after.get(name)}
            for name in dict.fromkeys([*before, *after])
            if before.get(name) != after.get(name) and not hidden(name)
        }
        if changed:
            own = {name: row[name] for name in CHANGE[:3]}
            found.append(Correction(**own, changed=changed))
    return tuple(found)
