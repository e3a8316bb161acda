"""The files of an outcome: compared with what was assigned, and put in their place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from tallyman.control.openlineage.files import Emitter
from tallyman.control.pipeline.workspace import Workspace
from tallyman.control.target.package import MadeTarget
from tallyman.domain.account.stored_ledger import StoredLedger
from tallyman.domain.history.materialization import (
    REJECTIONS_FRAGMENT,
    Made,
    Materialization,
    RunRecord,
)
from tallyman.domain.pipeline.target import folder_of
from tallyman.domain.version.dataset import Fragment
from tallyman.engine.files.past_run import ledger_in
from tallyman.engine.files.run_folder import RunFolder
from tallyman.engine.warehouse.warehouse import Warehouse
from tallyman.errors import NotFound, OutcomeUnfit
from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    from pyarrow import parquet as pq
else:
    pq = OnDemand("pyarrow.parquet")


@dataclass(frozen=True, slots=True)
class OutcomeFiles:
    """The files of one attempt at a target: where they are, and where they belong. What a worker
    says about them is not believed: code of users ran where it was written."""

    workspace: Workspace
    run: RunRecord
    assigned: Materialization
    """The row of the target, with the attempt that was assigned."""
    made: MadeTarget

    @property
    def name(self) -> str:
        return folder_of(self.workspace.pipeline.assets, self.assigned.target)

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.workspace.home / self.run.folder)

    def check(self) -> None:
        """Raise OutcomeUnfit unless the outcome is of the assigned attempt, its ledger balances,
        and every file that is to be published is there, with its size and rows."""
        for problem in self._problems():
            raise OutcomeUnfit(str(self.assigned.target), problem)

    def _problems(self) -> Iterator[str]:
        outcome = self.made.outcome
        if outcome.target != self.assigned.target:
            yield f"it is of {outcome.target}"
        fragments = [outcome.rejections] if outcome.rejections is not None else []
        if outcome.made is not None:
            yield from self._problems_of(outcome.made)
            fragments += [outcome.made.fragment, *outcome.made.registered]
        for fragment in fragments:
            yield from _unfit_files(self.workspace.warehouse, fragment)

    def _problems_of(self, made: Made) -> Iterator[str]:
        attempt = self.made.outcome.result.attempt
        if type(attempt) is not int or attempt != self.assigned.attempt:
            yield f"it is of attempt {attempt}, not {self.assigned.attempt}"
        if made.location != f"{self.run.folder}/{self.name}/output":
            yield f"it is for {made.location}"
        listed = {*made.metadata.get("registered", ()), made.metadata.get(REJECTIONS_FRAGMENT)}
        if listed - {None} != {str(fragment.id) for fragment in made.registered}:
            yield "it lists other fragments than it registers"
        try:
            ledger = ledger_in(self._place())
        except (NotFound, ValueError):
            yield f"there is no ledger of attempt {self.assigned.attempt}"
            return
        if not ledger.proof.balanced:
            yield "its ledger does not balance"
        yield from self._differences(ledger, made)

    def _place(self) -> Path:
        """Return the folder with the files: after a report whose transaction was lost, they are in
        their place already."""
        unfinished = self.folder.unfinished(self.name, self.assigned.attempt)
        return unfinished if unfinished.exists() else self.folder.path / self.name

    def _differences(self, ledger: StoredLedger, made: Made) -> Iterator[str]:
        """Compare the outcome with its ledger: the one in the place may be of another attempt."""
        if made.metadata.get("records_in") != ledger.records_in:
            yield f"its ledger has {ledger.records_in:,} records in"
        asset = self.workspace.pipeline.assets[self.assigned.target.asset]
        if asset.update_strategy == "append" or ledger.files is None:
            return  # of the output, only new rows are published
        known = {k: v for k, v in ledger.files.items() if PurePosixPath(k).parts[0] == "output"}
        if {PurePosixPath(f.path).name: f.sha256 for f in made.fragment.files} != {
            PurePosixPath(name).name: digest for name, digest in known.items()
        }:
            yield "its ledger has other files"

    def put(self) -> None:
        """Move the files to their place. Only while the task is locked: no other attempt does."""
        folder = RunFolder.open(self.folder.path)
        if self.made.description is not None:
            self.made.description.write_again(folder)
        folder.replace(self.name, self.assigned.attempt)

    def recorded(self) -> None:
        """Append the events to those in the run folder, now that the registry has them."""
        Emitter(self.folder).record(self.made.outcome.events)


def _unfit_files(warehouse: Warehouse, fragment: Fragment) -> Iterator[str]:
    # The warehouse of the run, whatever the outcome says about another one.
    root, inside = warehouse.dataset(fragment.dataset_id), f"version/{fragment.id}"
    for path in fragment.paths:
        if PurePosixPath(path).parts[:-1] != PurePosixPath(inside).parts or ".." in path:
            yield f"{path} is not in the folder of fragment {fragment.id}"
            return
    for file in fragment.files:
        found = _measured(root / file.path)
        if found is None:
            yield f"{file.path} is not there"
        elif found != (file.bytes, file.rows):
            size, rows = found
            yield (
                f"{file.path} has {size:,} bytes and {rows:,} rows, "
                f"not {file.bytes:,} and {file.rows or 0:,}"
            )


def _measured(path: Path) -> tuple[int, int] | None:
    try:
        return path.stat().st_size, pq.read_metadata(path).num_rows
    except (OSError, ValueError):
        return None
