"""Where: follow records of a source forward to all rows they reached, or to the step that ended
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tallyman.domain.history.asked_row import said
from tallyman.domain.history.materialization import Materialization, RunRecord
from tallyman.domain.history.run import Status
from tallyman.domain.history.walk import Became, Where
from tallyman.domain.version.dataset import Dataset, Fragment, Kind, asset_of, registered_by
from tallyman.engine.readback.fates import Fates, Forward
from tallyman.engine.readback.key_text import KeyShape
from tallyman.engine.readback.levels import Levels
from tallyman.engine.readback.records import Records
from tallyman.engine.readback.session import parquet_files
from tallyman.errors import NotFound, PipelineOutOfReach
from tallyman.on_demand import OnDemand
from tallyman.query.walk import joins
from tallyman.query.walk.find_record import Followed, find_record
from tallyman.query.walk.inputs import PastInput
from tallyman.query.walk.joins import JoinLink
from tallyman.query.walk.results import Result
from tallyman.query.walk.why import NEEDS_PLAN, Walk, counted
from tallyman.registry.database import Transaction
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.reads import Reads
from tallyman.registry.version.datasets import Datasets
from tallyman.registry.version.fragments import Fragments

if TYPE_CHECKING:
    from tallyman.query.walk import joins_on_spark
else:
    joins_on_spark = OnDemand("tallyman.query.walk.joins_on_spark")


NEEDS_RECORDS = "join {step} met the records of a replay: only evaluating the plan shows which"


@dataclass
class ForwardWalk(Walk):
    run: RunRecord | None = None

    def where(self, source: str, run: RunRecord | None) -> Where:
        self.run = run
        followed, count, shown = find_record(self, source)
        readers = self.past.workspace.database.durably(lambda tx: self._readers(tx, source))
        readers = [made for made in readers if self._has_evidence(made)]
        if not readers:
            raise NotFound(f"result in {_of(run)} that read", source)
        became = self._became(followed, [self.past.result(made.id) for made in readers])
        if not count and not any(_known(one) for one in became):
            row = said(self.asked.row)
            raise NotFound(f"record in {source}, nor in the evidence of {_of(run)}, with", row)
        notes = () if count else (f"the files of {source} no longer contain this record",)
        return Where(
            source=source,
            row=dict(self.asked.row),
            count=count,
            records=tuple(shown),
            became=tuple(became),
            notes=notes,
        )

    # ---- readers --------------------------------------------------------------------------

    def _readers(self, tx: Transaction, name: str) -> list[Materialization]:
        """Find the results that read it: in current versions, or in the run; for an asset without a
        version, its latest attempt."""
        if self.run is not None:
            reading = [
                a.name for a in self.past.workspace.pipeline.assets.values() if name in a.inputs
            ]
            made = Materializations(tx).of_run(self.run.id)
            return [m for m in made if m.target.asset in reading]
        owner = self.past.workspace.owner
        found = Reads(tx).of_source(name, owner)
        known = {made.target.asset for made in found}
        for made in Materializations(tx).latest_of_each(owner):
            asset = self.past.workspace.pipeline.assets.get(made.target.asset)
            if asset is not None and name in asset.inputs and asset.name not in known:
                found.append(made)
        return found

    def _has_evidence(self, made: Materialization) -> bool:
        if made.status in (Status.PENDING, Status.RUNNING):
            return False
        try:
            return self.past.result(made.id).has_evidence
        except NotFound:
            return False

    # ---- forward ----------------------------------------------------------------------------

    def _became(self, followed: Followed, results: Sequence[Result]) -> list[Became]:
        found: list[Became] = []
        elsewhere: dict[str, int] = {}
        for result in results:
            one = self._in(followed, result)
            if not _known(one) and _output_of(followed, result) is not None:
                continue  # the record is in another output of the asset
            if one.role == "record" and _left_to_another(one, followed.name):
                elsewhere[one.asset] = elsewhere.get(one.asset, 0) + 1
            elif one.role == "record" and not _known(one) and result.replays_some:
                continue  # it had no part in the replay
            elif one.role == "reference" or _known(one) or result.made.target.partition is None:
                found.append(one)
        return [replace(one, other_partitions=elsewhere.get(one.asset)) for one in found] + [
            Became(
                asset=asset,
                partition=None,
                run="",
                status="",
                role="record",
                other_partitions=count,
            )
            for asset, count in elsewhere.items()
            if asset not in {one.asset for one in found}
        ]

    def _in(self, followed: Followed, result: Result) -> Became:
        self.past.evidence_of(result, str(result.made.target))
        followed = _as_read_by(followed, result)
        owner = result.run.owner
        start = Became(
            pipeline=None if owner == self.past.workspace.owner else owner.project,
            asset=result.made.target.asset,
            partition=result.made.target.partition,
            run=result.run.name,
            status=result.made.status.value,
            role="record",
        )
        if followed.name in {given.name for given in result.accounted}:
            return self._as_record(start, followed, result)
        return self._as_reference(replace(start, role="reference"), followed, result)

    def _as_record(self, start: Became, followed: Followed, result: Result) -> Became:
        dataset, version, fragment = self.past.workspace.database.durably(
            lambda tx: self._output(tx, result)
        )
        paths = self.past.output_of(dataset, fragment)
        fates, recomputed = self._fates(followed, result, paths)
        notes = []
        if note := result.unsure:
            notes.append(note)
        corrected = self.corrected(result, followed.name, self._keys(followed, result))
        key = followed.shape.names if followed.shape else ()
        notes += map(str, self.corrections(corrected, key))
        if not fates.known:
            notes.append(self._unmet(followed, result, paths))
        notes += self._outputs(followed, result)
        if fates.steps and not paths:
            notes.append("the run did not succeed: it has no rows")
        if fates.rows and dataset and version is None:
            notes.append("the rows are not in any version")
        shown, then = self._reached(fates, paths, dataset, result, fragment)
        return replace(
            start,
            dataset=dataset.name if dataset and fates.rows else None,
            version=version if fates.rows else None,
            steps=tuple(fates.steps),
            rejections=tuple(fates.rejections),
            filtered=tuple(fates.filtered),
            rows=self.duck.count(fates.rows) if fates.rows else 0,
            shown=tuple(shown),
            recomputed=recomputed,
            notes=tuple(notes),
            then=tuple(then),
        )

    def _outputs(self, followed: Followed, result: Result) -> list[str]:
        """Say in which outputs of a split the record's rows are."""
        names = dict(result.asset.split) if result.asset else {}
        if not names or result.made.fragment_id is None:
            return []

        def work(tx: Transaction) -> list[tuple[Dataset, Fragment]]:
            producers = [registered_by(result.made.target.asset, name) for name in names]
            owner = self.past.workspace.owner
            return [
                (dataset, fragment)
                for dataset in Datasets(tx).of_producers(owner, producers, Kind.ASSET)
                for fragment in Fragments(tx).of_result(result.made.id, dataset.id)
            ]

        found = []
        for dataset, fragment in self.past.workspace.database.durably(work):
            fates, _ = self._fates(followed, result, self.past.output_of(dataset, fragment))
            if fates.rows and (rows := self.duck.count(fates.rows)):
                found.append(f"{counted(rows)} in output {dataset.name}")
        return found

    def _unmet(self, followed: Followed, result: Result, paths: Sequence[str]) -> str:
        """Explain why the record led to nothing. The version of an asset that appends contains only
        the new rows; the run folder contains all of them."""
        made = parquet_files(result.place / "output")
        if paths and made and self._fates(followed, result, made)[0].known:
            return "its row already existed: an earlier run added it"
        return "this run did not read the record: the source had other records then"

    def _fates(
        self, followed: Followed, result: Result, paths: Sequence[str]
    ) -> tuple[Fates, bool]:
        """Find the record's fates. Recompute keys of groups only if it was neither rejected nor
        filtered."""
        ended = self._forward(result, result.place, followed.shape, ())
        stored = not result.digests_only
        keys = self._keys(followed, result)
        fates = ended.fates(keys) if not stored else Fates()
        if not stored and (fates.rejections or fates.filtered):
            return fates, False
        with self.past.at(result).evidence(result) as folder:
            forward = self._forward(result, folder, followed.shape, tuple(paths))
            return forward.fates(keys), folder != result.place

    def _keys(self, followed: Followed, result: Result) -> str:
        """Return the records' keys, and the places by which the result knows them."""
        given = next((one for one in result.inputs if one.name == followed.name), None)
        if given is None or not self.duck.count(followed.hits):
            return self.duck.keep(f"SELECT k, NULL::VARCHAR AS p FROM {followed.keys}")
        return self._placed(result, given, followed.records, followed.hits)

    def _placed(self, result: Result, given: PastInput, records: Records, hits: str) -> str:
        """Return keys with places; old places are valid only if the files are unchanged."""
        known = result.names_places and given.files is not None
        if known and not self.past.at(result).changed(result, given):
            assert given.files is not None
            return records.keys(hits, given.files.root)
        return self.duck.keep(f"SELECT k, NULL::VARCHAR AS p FROM {hits}")

    def _forward(
        self, result: Result, folder: Any, shape: KeyShape | None, paths: tuple[str, ...]
    ) -> Forward:
        return Forward(self.duck, Levels(self.duck, folder, result.ledger), shape, paths)

    def _output(
        self, tx: Transaction, result: Result
    ) -> tuple[Dataset | None, int | None, Fragment | None]:
        known = result.made.fragment_id
        fragment = None if known is None else Fragments(tx).get([known]).get(known)
        if fragment is None:
            return None, None, None
        dataset = Datasets(tx).by_ids([fragment.dataset_id])[fragment.dataset_id]
        pinned = dataset.ordinal if self.run is None else self.run.pins.get(dataset.id, 0)
        return dataset, Reads(tx).version_of(dataset.id, fragment.id, pinned), fragment

    def _reached(
        self,
        fates: Fates,
        paths: Sequence[str],
        dataset: Dataset | None,
        result: Result,
        fragment: Fragment | None,
    ) -> tuple[list[Mapping[str, Any]], list[Became]]:
        """Return the rows themselves, and where they led."""
        if not fates.rows or dataset is None or fragment is None:
            return [], []
        key = self.past.at(result).inputs.key_of(dataset)
        files = self.past.inputs.stored_files(dataset.producer, (fragment,))
        records = self.opened_records.dataset(dataset.producer, files, key)
        hits = records.at(fates.rows)
        shown = [record.values for record in self.seen(records, hits, self.asked.limit)]
        run = self.run.id if self.run else None
        owner = self.past.workspace.owner
        readers = self.past.workspace.database.durably(
            lambda tx: Reads(tx).of_result(result.made.id, owner, run)
        )
        shape = records.shape if key else None
        followed = Followed(dataset.producer, hits, shape, records, hits, dataset.id)
        within, beyond = self._results(readers)
        return shown, [*self._became(followed, within), *beyond]

    def _results(self, readers: Sequence[Materialization]) -> tuple[list[Result], list[Became]]:
        """Open the results of readers; those of pipelines out of reach are only named."""
        within: list[Result] = []
        beyond: list[Became] = []
        for made in readers:
            try:
                within.append(self.past.result(made.id))
            except PipelineOutOfReach as error:
                target = made.target
                unknown = Became(
                    asset=target.asset,
                    partition=target.partition,
                    run="",
                    status=made.status.value,
                    role="record",
                    pipeline=error.project,
                    notes=(str(error),),
                )
                beyond.append(unknown)
        return within, beyond

    # ---- as a reference -------------------------------------------------------------------

    def _as_reference(self, start: Became, followed: Followed, result: Result) -> Became:
        if not result.as_defined or result.plan is None:
            note = f"{start.asset} has another definition now than in run {start.run}"
            return replace(start, notes=(note,))
        total = 0
        for link in self.links(result):
            if link.reference == followed.name:
                total += self._joined_by(link, followed, result)
        return replace(start, joined_by=total)

    def _joined_by(self, link: JoinLink, followed: Followed, result: Result) -> int:
        """Count the records that matched one of these rows, without those that ended before the
        join."""
        given = {one.name: one for one in result.inputs if one.files is not None}
        if result.reads_corrections or not self._by_columns(link, followed, given):
            needs = NEEDS_RECORDS if result.reads_corrections else NEEDS_PLAN
            again, link = self.with_spark(result, link, needs)
            keys = self._keys(followed, result)
            return joins_on_spark.met_by_plan(again, link, self.duck, keys)
        assert link.left is not None
        assert link.right is not None
        values = followed.records.values(followed.hits, link.right)
        total = 0
        for name, columns in link.left.items():
            hits = self.records(result, name).by_values(values, columns)
            total += self._alive(hits, link, result, given[name])
        return total

    def _by_columns(
        self, link: JoinLink, followed: Followed, given: Mapping[str, PastInput]
    ) -> bool:
        """True if the values of columns show which records matched these rows."""
        if link.left is None or link.right is None or not set(link.left) <= set(given):
            return False
        records, hits = followed.records, followed.hits
        if not link.drops_repeated:
            return True
        equal = records.by_values(records.values(hits, link.right), link.right)
        return joins.each_once(records, equal, link.right)

    def _alive(self, hits: str, link: JoinLink, result: Result, given: PastInput) -> int:
        levels = Levels(self.duck, result.place, result.ledger)
        records = self.records(result, given.name)
        forward = Forward(self.duck, levels, records.shape if given.key else None, ())
        keys = self._placed(result, given, records, hits)
        return self.duck.count(hits) - forward.ended_before(keys, link.before)


def _of(run: RunRecord | None) -> str:
    if run is None:
        return "any current version"
    canceled = run.status is Status.CANCELED
    gone = " (canceled, its trace and partial results were discarded)"
    return f"run {run.name}{gone if canceled else ''}"


def _known(one: Became) -> bool:
    return bool(one.rejections or one.filtered or one.steps or one.rows or one.joined_by)


def _as_read_by(followed: Followed, result: Result) -> Followed:
    """Give followed rows the name that the reader gives their dataset."""
    for given in result.inputs:
        if followed.dataset and given.dataset and given.dataset.id == followed.dataset:
            return replace(followed, name=given.name)
    name = _output_of(followed, result)
    return replace(followed, name=name) if name else followed


def _output_of(followed: Followed, result: Result) -> str | None:
    """Return the input that is another output of the asset whose rows are followed, if the result
    reads that instead of the asset's own dataset."""
    read = {given.name: given.dataset for given in result.inputs if given.dataset is not None}
    if followed.dataset is None or followed.dataset in {dataset.id for dataset in read.values()}:
        return None
    asset = asset_of(followed.name)
    return next((name for name, d in read.items() if asset_of(d.producer) == asset), None)


def _left_to_another(one: Became, source: str) -> bool:
    """True if the record was only filtered because it belongs to another partition."""
    name = f"{source}_partition"
    return (
        one.partition is not None
        and not (one.rejections or one.steps or one.rows)
        and bool(one.filtered)
        and all(ended.step == name for ended in one.filtered)
    )
