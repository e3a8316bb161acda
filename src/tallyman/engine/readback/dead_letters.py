"""Dead letters read by DuckDB from run folders, with the current resolution of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import duckdb

from tallyman.engine.files.duck import connect, dicts
from tallyman.errors import UsageError
from tallyman.errors.wording import first_line
from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = OnDemand("pyarrow")

FIELDS = (
    "source_key",
    "error_type",
    "morphism_path",
    "expected",
    "actual",
    "context",
    "run_id",
    "openlineage_run_id",
    "timestamp",
    "error_code",
    "error_id",
)
STATES = ("open", "replayed", "moved", "discarded")
BATCH = 10_000

_TYPES = ", ".join(f"{name}: 'VARCHAR'" for name in FIELDS if name != "context")
READ = (
    "read_json($files, format = 'newline_delimited', hive_partitioning = false, "
    f"columns = {{{_TYPES}, context: 'MAP(VARCHAR, VARCHAR)'}})"
)
# A row made of a record is named after it: K/0, and K/0/2 if this happened twice.
_RECORD = (
    "CASE WHEN context['level'] IS NULL OR context['group_key'] IS NOT NULL THEN source_key "
    "ELSE regexp_replace(source_key, '(/[0-9]+){' || context['level'] || '}$', '') END"
)
# A record may have several rejections, and a key several records. `rejection` is "1/2" in the first
# of two letters of a record.
_RECORDS = "count(*) FILTER (starts_with(context['rejection'], '1/'))"
_TABLES = """
    CREATE TABLE letters (target VARCHAR, record_key VARCHAR, {columns});
    CREATE TABLE resolved (target VARCHAR, source_key VARCHAR, outcome VARCHAR, by_run VARCHAR);
    CREATE VIEW standing AS
        SELECT l.*, coalesce(r.outcome, 'open') AS state, r.by_run
        FROM letters l LEFT JOIN resolved r USING (target, source_key);
"""


WRONG = {
    "is not a JSON object": "NOT valid",
    "names no open rejection": (
        "valid AND (key IS NULL OR key NOT IN (SELECT record_key FROM chosen))"
    ),
    "names a record that another line names too": (
        "valid AND key IN (SELECT key FROM lines GROUP BY key HAVING count(*) > 1)"
    ),
}
IN_SEVERAL = (
    "names a record of several partitions (choose one with --where \"target = '…'\")",
    "key IN (SELECT record_key FROM chosen GROUP BY 1 HAVING count(DISTINCT target) > 1)",
)


class Letters:
    """The dead letters of some targets. A rejection without a resolution is open."""

    def __init__(self, places: Mapping[str, Path]) -> None:
        self._db = connect()
        columns = ", ".join(f"{n} VARCHAR" for n in FIELDS if n != "context")
        columns = f"{columns}, context MAP(VARCHAR, VARCHAR)"
        self._db.execute(_TABLES.format(columns=columns))
        listed = ", ".join(FIELDS)
        for target, place in places.items():
            if files := files_in(place):
                self._db.execute(
                    f"INSERT INTO letters (target, record_key, {listed}) "
                    f"SELECT $target, {_RECORD}, {listed} FROM {READ}",
                    {"target": target, "files": files},
                )
        # A condition written by a person may read these tables and nothing else.
        self._db.execute("SET enable_external_access = false")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def forget(self, target: str) -> None:
        """Drop the resolutions of a target: they may have to be made again."""
        self._db.execute("DELETE FROM resolved WHERE target = $t", {"t": target})

    def resolve(self, target: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add resolutions of a target's rejections: source_key, outcome, by_run."""
        names = ("source_key", "outcome", "by_run")
        columns = [pa.array([row[name] for row in rows], pa.string()) for name in names]
        given = pa.Table.from_arrays([pa.array([target] * len(rows)), *columns], ["t", *names])
        self._db.register("given", given)
        self._db.execute("INSERT INTO resolved SELECT * FROM given")
        self._db.unregister("given")

    # ---- choosing -----------------------------------------------------------------------------

    def choose(self, where: str | None) -> None:
        """Choose the open rejections for which the condition holds, for later calls."""
        self._ask(
            "CREATE OR REPLACE TABLE chosen AS SELECT DISTINCT target, record_key, source_key "
            f"FROM standing WHERE state = 'open' AND ({where or 'true'})",
            where,
        )

    def targets(self) -> dict[str, int]:
        """Count the chosen records of each target."""
        found = self._db.execute(
            "SELECT target, count(DISTINCT record_key) FROM chosen GROUP BY 1 ORDER BY 1"
        )
        return dict(found.fetchall())

    def record_keys(self, target: str) -> pa.Table:
        """List the keys of the chosen records, each once, as `source_key`."""
        return self._db.sql(
            "SELECT DISTINCT record_key AS source_key FROM chosen WHERE target = $t ORDER BY 1",
            params={"t": target},
        ).to_arrow_table()

    def narrow(self, lines: pa.Table, *, by_target: bool) -> list[tuple[str, int, list[str]]]:
        """Choose only records that these lines (line, valid, key) name. Return what is wrong with
        the lines: in which way, how many, the first few; then nothing is chosen. `by_target`: each
        target has files of its own, so one key in two targets means two records.
        """
        self._load("lines", lines)
        ways = [*WRONG.items(), *([IN_SEVERAL] if by_target else [])]
        wrong = [found for way, text in ways if (found := self._wrong(way, text))]
        done = self._wrong("", "key IN (SELECT record_key FROM standing WHERE state <> 'open')")
        if done and done[1] == lines.num_rows and len(wrong) == 1:
            wrong.clear()  # the same file again: everything in it was replayed
        if not wrong:
            self._db.execute("DELETE FROM chosen WHERE record_key NOT IN (SELECT key FROM lines)")
        return wrong

    def _wrong(self, way: str, text: str) -> tuple[str, int, list[str]] | None:
        rows = self._db.execute(
            f"SELECT line, coalesce(key, '') FROM lines WHERE {text} ORDER BY 1 LIMIT 5"
        ).fetchall()
        first = [f"line {line}{f' ({key})' if key else ''}" for line, key in rows]
        count = self._number(f"SELECT count(*) FROM lines WHERE {text}")
        return (way, count, first) if count else None

    def discardable(self, target: str) -> Iterator[str]:
        """Yield the keys of the chosen rejections."""
        found = "SELECT DISTINCT source_key FROM chosen WHERE target = $t ORDER BY 1"
        return (key for (key,) in self._rows(found, {"t": target}))

    def outcomes(
        self, target: str, again: pa.Table, *, all_open: bool
    ) -> Iterator[tuple[str, str]]:
        """Yield each replayed key (the chosen ones, or all that were open) with its outcome: moved
        if it is among the rejections of the replay.
        """
        self._load("again", again)
        origin = "standing WHERE state = 'open' AND" if all_open else "chosen WHERE"
        outcome = "source_key IN (SELECT source_key FROM again)"
        text = f"SELECT DISTINCT source_key, {outcome} FROM {origin} target = $t ORDER BY 1"
        for key, rejected in self._rows(text, {"t": target}):
            yield key, "moved" if rejected else "replayed"

    def again(self, target: str, again: pa.Table) -> int:
        """Count the chosen records that are rejections of the replay too."""
        self._load("again", again)
        return self._number(
            "SELECT count(DISTINCT record_key) FROM chosen WHERE target = $t "
            "AND source_key IN (SELECT source_key FROM again)",
            {"t": target},
        )

    def only(self, records: pa.Table) -> None:
        """Drop the letters of all other records."""
        self._load("kept", records)
        self._db.execute(
            "DELETE FROM letters WHERE record_key NOT IN (SELECT source_key FROM kept)"
        )

    def _load(self, name: str, rows: pa.Table) -> None:
        self._db.register("given", rows)
        self._db.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM given")
        self._db.unregister("given")

    def _rows(self, text: str, given: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
        """Yield rows a few at a time, while other queries run."""
        found = self._db.cursor().execute(text, dict(given))
        while rows := found.fetchmany(BATCH):
            yield from rows

    # ---- reporting ------------------------------------------------------------------------------

    def records(self, target: str | None = None) -> dict[str, int]:
        """Count the records in each state."""
        found = self._db.execute(
            f"SELECT state, {_RECORDS} FROM standing WHERE $t IS NULL OR target = $t GROUP BY 1",
            {"t": target},
        )
        return dict.fromkeys(STATES, 0) | dict(found.fetchall())

    def replays(self) -> dict[str, dict[str, int]]:
        """Count, for each replay, the records that passed in it and those it rejected again."""
        found: dict[str, dict[str, int]] = {}
        rows = self._db.execute(
            f"SELECT by_run, state, {_RECORDS} FROM standing "
            "WHERE by_run IS NOT NULL GROUP BY 1, 2 ORDER BY 1"
        )
        for run, state, count in rows.fetchall():
            found.setdefault(run, {"replayed": 0, "moved": 0})[state] = count
        return found

    def summary(self, *, only_open: bool = False) -> list[dict[str, Any]]:
        """Count rejections by target, kind and place."""
        states = ", ".join(f"count(*) FILTER (state = '{name}') AS {name}" for name in STATES)
        found = self._db.execute(
            "SELECT target AS asset, error_type, morphism_path, count(*) AS count, "
            f"{states}, min(error_code) AS sample_error_code, "
            "min(actual) AS sample_actual_value FROM standing WHERE NOT $open OR state = 'open' "
            "GROUP BY ALL ORDER BY 1, 2, 3",
            {"open": only_open},
        )
        return dicts(found)

    def listed(
        self,
        *,
        key: str | None,
        hidden: str | None,
        kind: str | None,
        where: str | None,
        only_open: bool,
        limit: int,
    ) -> tuple[int, list[dict[str, Any]]]:
        """Count the matches, and list the first of them in a stable order."""
        wanted = (
            "($key IS NULL OR source_key IN ($key, $hidden)) "
            "AND ($kind IS NULL OR error_type = $kind) "
            f"AND (NOT $open OR state = 'open') AND ({where or 'true'})"
        )
        given = {"key": key, "hidden": hidden, "kind": kind, "open": only_open}
        [[total]] = self._ask(
            f"SELECT count(*) FROM standing WHERE {wanted}", where, given
        ).fetchall()
        names = ", ".join(FIELDS)
        found = self._db.execute(
            f"SELECT target, {names}, state, by_run AS resolved_by FROM standing WHERE {wanted} "
            f"ORDER BY source_key, target, error_type, morphism_path LIMIT {int(limit)}",
            given,
        )
        return int(total), dicts(found)

    def _number(self, text: str, given: Mapping[str, Any] | None = None) -> int:
        """Read all of the result: until then DuckDB refuses other work on the connection."""
        [[found]] = self._db.execute(text, dict(given or {})).fetchall()
        return int(found)

    def _ask(
        self, text: str, where: str | None, given: Mapping[str, Any] | None = None
    ) -> duckdb.DuckDBPyConnection:
        """Run a query that contains a person's own condition."""
        try:
            return self._db.execute(text, dict(given or {}))
        except duckdb.Error as error:
            if where is None:
                raise
            first = first_line(error)
            raise UsageError(
                f"--where {where!r} cannot be evaluated: {first}. "
                f"The fields are {', '.join(FIELDS)}"
            ) from None


def files_in(place: Path) -> list[str]:
    return [str(file) for file in sorted((place / "errors").rglob("*.jsonl"))]


def rejected_keys(place: Path) -> pa.Table:
    """List the keys of the rejections in a folder, each once."""
    with connect() as connection:
        files = files_in(place)
        if not files:
            return pa.table({"source_key": pa.array([], pa.string())})
        return connection.sql(
            f"SELECT DISTINCT source_key FROM {READ}", params={"files": files}
        ).to_arrow_table()
