"""Why: follow rows of a dataset back to the records and files they were made from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from tallyman.control.publish.resolve import Resolved
from tallyman.domain.account.redaction import covers, without_redacted
from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.plan import step_ids
from tallyman.domain.history.asked_row import AskedRow, said
from tallyman.domain.history.walk import (
    Correction,
    Hop,
    Joined,
    Record,
    RecordOrigin,
    WalkCounts,
    Why,
)
from tallyman.domain.version.dataset import Dataset, Fragment, Kind
from tallyman.engine.expressions.column_names import is_ours
from tallyman.engine.files.duck import BLOB, quoted, text
from tallyman.engine.files.replay_folder import FOLDER, changes_in, corrections_of
from tallyman.engine.readback.levels import Levels
from tallyman.engine.readback.open import OpenRecords
from tallyman.engine.readback.records import Records, typed
from tallyman.engine.readback.session import DuckSession
from tallyman.errors import NotFound, PipelineOutOfReach, UsageError
from tallyman.errors.wording import nearest
from tallyman.on_demand import OnDemand
from tallyman.query.walk import joins
from tallyman.query.walk.inputs import PastInput
from tallyman.query.walk.joins import JoinLink
from tallyman.query.walk.results import Past, Result

if TYPE_CHECKING:
    from tallyman.control.verify.reopen import Again
    from tallyman.query.walk import joins_on_spark
else:
    joins_on_spark = OnDemand("tallyman.query.walk.joins_on_spark")


Hits = dict[str, Sequence[tuple[Records, str]]]
"""The records of each accounted input, as the run read them."""
NEEDS_PLAN = (
    "join {step} compares computed columns, or its reference leaves rows out: only evaluating the "
    "plan shows what matched"
)


def counted(rows: int) -> str:
    return f"{rows:,} row{'' if rows == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class RowQuestion:
    """A question about rows; `limit` None means no limit."""

    row: AskedRow
    limit: int | None = 20
    keys: bool = False


@dataclass
class Walk:
    past: Past
    duck: DuckSession
    opened_records: OpenRecords
    asked: RowQuestion
    _opened: dict[tuple[Any, ...], Records] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def begun(cls, past: Past, asked: RowQuestion) -> Iterator[Self]:
        with (
            DuckSession(past.secret) as duck,
            closing(past),
            closing(OpenRecords(duck)) as opened_records,
        ):
            yield cls(past, duck, opened_records, asked)

    def why(self, found: Resolved, fragments: Sequence[Fragment]) -> Why:
        dataset, version = found.dataset, found.version.ordinal
        files = self.past.inputs.stored_files(dataset.name, tuple(fragments))
        records = self.opened_records.dataset(dataset.name, files, dataset.key_columns)
        check_columns(records, self.asked.row, f"{dataset.name} v{version}")
        hits = records.matching(self.asked.row)
        rows = self.duck.count(hits)
        self._check_count(rows, dataset, version, records)
        answer = Why(dataset=dataset.name, version=version, row=dict(self.asked.row), rows=rows)
        if dataset.kind is Kind.TABLE:
            commit, actor = self.past.commit_of(dataset, version)
            shown = _without_place(self.seen(records, hits, self.asked.limit))
            return replace(answer, commit=commit, committed_by=actor, records=shown)
        return replace(answer, hops=self.hops(dataset, version, fragments, hits))

    def _check_count(self, rows: int, dataset: Dataset, version: int, records: Records) -> None:
        row = said(self.asked.row)
        if not rows:
            raise NotFound(f"row in {dataset.name} v{version} with", row)
        more = [name for name in dataset.key_columns if name not in self.asked.row]
        have = "has" if rows == 1 else "have"
        what = f"{counted(rows)} of {dataset.name} v{version} {have} {row or 'any value'}"
        self.check_limit(rows, what, more or records.types)

    def check_limit(self, rows: int, what: str, columns: Iterable[str]) -> None:
        """Refuse to show more than was asked for; name columns that would choose fewer."""
        if self.asked.limit is not None and rows > self.asked.limit:
            others = [f"{name}=…" for name in columns if name not in self.asked.row]
            raise UsageError(
                f"{what}, more than {self.asked.limit}: add {', '.join(others[:4])}, or raise the "
                "limit (--limit 0, in Python limit=None, is none)"
            )

    # ---- hops -----------------------------------------------------------------------------

    def hops(
        self, dataset: Dataset, version: int | None, fragments: Sequence[Fragment], hits: str
    ) -> tuple[Hop, ...]:
        """Make one hop for each result that contains the rows."""
        found = []
        for fragment in fragments:
            paths = self.past.workspace.warehouse.paths([fragment])
            listed = ", ".join(text(path) for path in paths)
            own = self.duck.keep(f"SELECT * FROM {hits} WHERE _tm_file IN ({listed})")
            if self.duck.count(own):
                found.append(self._hop(dataset, version, fragment, paths, own))
        return tuple(found)

    def _hop(
        self,
        dataset: Dataset,
        version: int | None,
        fragment: Fragment,
        paths: Sequence[str],
        hits: str,
    ) -> Hop:
        assert fragment.materialization_id is not None
        result = self.past.opened(fragment.materialization_id, f"{dataset.name} v{version}")
        keys, steps, recomputed = self._behind(result, paths, hits)
        owner = result.run.owner
        hop = Hop(
            dataset=dataset.name,
            version=version,
            pipeline=None if owner == self.past.workspace.owner else owner.project,
            asset=result.made.target.asset,
            partition=result.made.target.partition,
            run=result.run.name,
            folder=os.path.relpath(result.place, self.past.workspace.home),
            rows=self.duck.count(hits),
            shown=self._rows(paths, hits),
            steps=tuple(steps or self._last_step(result, keys)),
            records=self.duck.count(keys),
            recomputed=recomputed,
        )
        return self._with_inputs(hop, result, keys)

    def _behind(
        self, result: Result, paths: Sequence[str], hits: str
    ) -> tuple[str, list[WalkCounts], bool]:
        with self.past.at(result).evidence(result) as folder:
            levels = Levels(self.duck, folder, result.ledger)
            source = self.duck.placed(paths)
            types = self.duck.columns(f"SELECT * FROM {source}")
            needed = ", ".join(f"r.{quoted(name)}" for name in levels.needed(types)) or "1 AS one"
            rows = self.duck.keep(
                f"SELECT {needed} FROM {source} r JOIN {hits} h "
                "ON r._tm_file = h._tm_file AND r._tm_line = h._tm_line"
            )
            keys, steps = levels.behind(rows)
        return keys, steps, folder != result.place

    def _rows(self, paths: Sequence[str], hits: str) -> tuple[Mapping[str, Any], ...]:
        most = "" if self.asked.limit is None else f"LIMIT {self.asked.limit}"
        few = f"(SELECT * FROM {hits} ORDER BY k {most})"
        found = self.duck.rows(
            f"SELECT r.* FROM {self.duck.placed(paths)} r JOIN {few} h "
            "ON r._tm_file = h._tm_file AND r._tm_line = h._tm_line ORDER BY h.k"
        )
        return tuple(
            without_redacted(
                self.past.hidden,
                {name: value for name, value in row.items() if not is_ours(name)},
            )
            for row in found
        )

    def seen(self, records: Records, hits: str, limit: int | None) -> list[Record]:
        """Return the records, without redacted values."""
        return [self.past.shown(one, records.key) for one in records.shown(hits, limit)]

    def _last_step(self, result: Result, keys: str) -> list[WalkCounts]:
        """Name the plan's last step for rows that passed unchanged."""
        step = "read"
        if result.plan is not None and result.plan.step is not None:
            step = step_ids(result.plan)[result.plan]
        return [WalkCounts(step=step, did="passed", count=self.duck.count(keys))]

    # ---- inputs -------------------------------------------------------------------------

    def _with_inputs(self, hop: Hop, result: Result, keys: str) -> Hop:
        notes = []
        if not result.as_defined:
            notes.append(
                f"{hop.asset} has another definition now than in run {hop.run}"
                if result.asset
                else f"{hop.asset} is no longer in the pipeline: the input of a record is found "
                "by its key"
            )
        hits: Hits = {}
        origins = []
        for given in result.accounted:
            corrected = self.corrected(result, given.name, keys)
            origin, own = self._origin(result, given, keys, corrected)
            origins.append(origin)
            if own is not None:
                records = self.records(result, given.name)
                hits[given.name] = self._as_read(records, own, corrected)
        if unsure := self._unsure(result, keys):
            notes.append(unsure)
        joined: list[Joined] = []
        if result.as_defined and result.plan is not None:
            joined = self._joined(result, hits, keys)
        return replace(hop, inputs=tuple(origins), joins=tuple(joined), notes=tuple(notes))

    def _unsure(self, result: Result, keys: str) -> str | None:
        """Explain why more records may be shown than the rows came from."""
        if self.duck.value(f"SELECT count(*) FROM {keys} WHERE p IS NULL"):
            return result.unsure
        return None

    # ---- corrections ----------------------------------------------------------------------

    def corrected(self, result: Result, name: str, keys: str) -> str | None:
        """Keep the corrections with which a replay read these records; None if it read none."""
        changes = changes_in(result.place / FOLDER)
        if changes is None or result.replay is None or result.replay["corrected"] != name:
            return None
        found = f"SELECT c.* FROM {changes} c SEMI JOIN {keys} w ON c.source_key = w.k"
        return self.duck.keep(found)

    def corrections(self, corrected: str | None, key: Sequence[str]) -> tuple[Correction, ...]:
        """Return the first corrections, without redacted columns; none if the key is redacted."""
        hidden = self.past.hidden
        if corrected is None or self.asked.keys or any(covers(hidden, name) for name in key):
            return ()
        most = "" if self.asked.limit is None else f" LIMIT {self.asked.limit}"
        order = "ORDER BY corrected_at, source_key"
        rows = self.duck.rows(f"SELECT * FROM {corrected} {order}{most}")
        return corrections_of(rows, lambda name: covers(hidden, name))

    def _as_read(
        self, records: Records, hits: str, corrected: str | None
    ) -> Sequence[tuple[Records, str]]:
        """Return the records as the run read them: corrected ones in place of those in files."""
        if corrected is None:
            return [(records, hits)]
        own = f"SELECT * FROM {hits} WHERE k NOT IN (SELECT source_key FROM {corrected})"
        lines = self.duck.keep(
            "SELECT source_key AS k, '' AS _tm_file, 0 AS _tm_line, 0 AS _tm_last, "
            f"arg_max(after, corrected_at) AS line FROM {corrected} GROUP BY source_key"
        )
        return [(records, self.duck.keep(own)), (self.opened_records.corrected(records), lines)]

    def _origin(
        self, result: Result, given: PastInput, keys: str, corrected: str | None
    ) -> tuple[RecordOrigin, str | None]:
        origin = RecordOrigin(
            name=given.name,
            kind=given.kind,
            version=given.version,
            count=self.duck.count(keys),
            corrections=self.corrections(corrected, given.key),
        )
        if self.asked.keys and given.kind != "asset":
            listed = self.duck.rows(f"SELECT k FROM {keys} ORDER BY k")
            origin = replace(origin, keys=tuple(row["k"] for row in listed))
        changed = self.past.at(result).changed(result, given)
        lost = f"SELECT count(*) FROM {corrected} WHERE before IS NULL"
        if corrected is not None and self.duck.value(lost):
            run = result.run.name
            changed = f"its files had changed when run {run} replayed corrected records"
        if changed or given.files is None:
            return replace(origin, not_shown=changed), None
        records = self.records(result, given.name)
        limit = 0 if self.asked.keys else self.asked.limit
        # With several inputs, it is unknown which keys come first in each.
        hits = records.by_keys(keys, shown=limit if len(result.accounted) == 1 else None)
        return self._shown(origin, given, records, hits, limit), hits

    def _shown(
        self, origin: RecordOrigin, given: PastInput, records: Records, hits: str, limit: int | None
    ) -> RecordOrigin:
        origin = replace(origin, count=self.duck.count(hits))
        if given.kind == "asset":
            assert given.dataset is not None
            origin = replace(origin, name=given.dataset.name)
            try:
                found = self.hops(given.dataset, given.version, given.fragments, hits)
            except PipelineOutOfReach as error:
                return replace(origin, not_shown=str(error))
            return replace(origin, hops=found)
        shown = self.seen(records, hits, limit)
        if given.kind == "table":
            assert given.dataset is not None
            assert given.version is not None
            commit, actor = self.past.commit_of(given.dataset, given.version)
            plain = _without_place(shown)
            return replace(origin, commit=commit, committed_by=actor, records=plain)
        below = os.path.relpath(records.files.root, self.past.workspace.home)
        named = tuple(replace(r, file=path_below(below, r.file)) for r in shown)
        files = {path_below(below, name): n for name, n in records.counts(hits).items()}
        return replace(origin, records=named, files=files)

    def records(self, result: Result, name: str) -> Records:
        """Open an input of a result, once."""
        given = next(one for one in result.inputs if one.name == name)
        assert given.files is not None
        place = (result.run.owner, name, given.partition, *(f.id for f in given.fragments))
        if place not in self._opened:
            source = self.past.at(result).workspace.pipeline.sources.get(name)
            self._opened[place] = (
                self.opened_records.source(source, given.files)
                if source is not None and given.kind == "source"
                else self.opened_records.dataset(name, given.files, given.key)
            )
        return self._opened[place]

    # ---- joins --------------------------------------------------------------------------

    def _joined(self, result: Result, hits: Hits, keys: str) -> list[Joined]:
        found = []
        for link in self.links(result):
            given = next((i for i in result.inputs if i.name == link.reference), None)
            if given is not None:
                origin = self._reference(result, given, link, hits, keys)
                found.append(Joined(step=link.step, on=link.on, origin=origin))
        return found

    def links(self, result: Result) -> list[JoinLink]:
        """List the joins of a result's plan, as far as its inputs can be read."""
        assert result.plan is not None
        return self._links(result, result.plan)

    def with_spark(self, result: Result, link: JoinLink, needs: str) -> tuple[Again, JoinLink]:
        """Reopen a result, and return the same join of a plan that Spark can evaluate."""
        self.past.start_spark(needs.format(step=link.step))
        again = self.past.at(result).again(result)
        found = self._links(result, again.plan)
        same = (o for o in found if (o.step, o.reference) == (link.step, link.reference))
        return again, next(same)

    def _links(self, result: Result, plan: Frame) -> list[JoinLink]:
        known = {
            given.name: list(self.records(result, given.name).types) if given.files else []
            for given in result.inputs
        }
        return joins.links(plan, known)

    def _reference(
        self, result: Result, given: PastInput, link: JoinLink, hits: Hits, keys: str
    ) -> RecordOrigin:
        origin = RecordOrigin(name=given.name, kind=given.kind, version=given.version)
        changed = self.past.at(result).changed(result, given)
        if changed or given.files is None:
            return replace(origin, not_shown=changed)
        if set(hits) != {one.name for one in result.accounted}:
            reason = "the records that it was joined with no longer exist"
            return replace(origin, not_shown=reason)
        reference = self.records(result, link.reference)
        found = joins.matched(link, hits, reference, self.asked.limit)
        if found is None:
            again, link = self.with_spark(result, link, NEEDS_PLAN)
            limit = self.asked.limit
            rows = joins_on_spark.matched_by_plan(again, link, self.duck, keys, limit)
            shown = tuple(self.past.shown(Record(key=None, values=row), ()) for row in rows)
            return replace(origin, records=shown, by_plan=True)
        return self._shown(origin, given, self.records(result, given.name), found, self.asked.limit)


def _without_place(found: Sequence[Record]) -> tuple[Record, ...]:
    """Drop file and line of a table's records: its files are internal."""
    return tuple(replace(record, file=None, line=None) for record in found)


def path_below(folder: str, name: str | None) -> str:
    return os.path.normpath(os.path.join(folder, name or ""))


def check_columns(records: Records, wanted: AskedRow, what: str) -> None:
    """Raise UsageError for an unknown column, or a value that is not of its type."""
    for name, value in wanted.items():
        if name not in records.types:
            near = nearest(name, records.types)
            meant = f" Did you mean {near!r}?" if near else ""
            known = ", ".join(records.types)
            raise UsageError(f"{what} has no column {name!r}.{meant} Its columns: {known}")
        kind = records.types[name]
        if value is not None and records.duck.value(f"SELECT {typed(value, kind)} IS NULL"):
            expected = "binary, given in hex" if kind == BLOB else kind.lower()
            raise UsageError(f"{name}={value}: the column is {expected}, and {value!r} is not")
