"""Everything that the execution of one run needs, built once when the run starts or resumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tallyman.control.bind.inputs import Pins
from tallyman.control.openlineage.run import RunEvents
from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.run.journal import Journal
from tallyman.control.run.progress import Listener, Terminal
from tallyman.control.run.watch import Watch
from tallyman.control.target.assign import Assigner
from tallyman.domain.history.options import Options
from tallyman.domain.history.run import RunIdentity
from tallyman.domain.pipeline.target import Target
from tallyman.engine.files.hashing import hasher_for
from tallyman.engine.files.run_folder import RunFolder
from tallyman.engine.warehouse.warehouse import Warehouse
from tallyman.settings import Settings


@dataclass(frozen=True, slots=True)
class Workbench:
    """The parts of a registered run that this process holds."""

    definitions: Definitions
    journal: Journal
    options: Options
    targets: Sequence[Target]
    pins: Pins
    assigner: Assigner
    folder: RunFolder
    lineage: RunEvents
    watch: Watch
    terminal: Terminal

    @classmethod
    def of(
        cls,
        definitions: Definitions,
        journal: Journal,
        options: Options,
        targets: Sequence[Target],
        listen: Listener,
    ) -> Workbench:
        settings, run = definitions.settings, journal.run
        hasher = hasher_for(settings.master, definitions.spark)
        pins = Pins(definitions.workspace, run.id, run.pins, hasher)
        folder = RunFolder(settings.home / run.folder)
        return cls(
            definitions=definitions,
            journal=journal,
            options=options,
            targets=targets,
            pins=pins,
            assigner=Assigner(definitions, run, options, pins),
            folder=folder,
            lineage=RunEvents(definitions, run, folder),
            watch=Watch(journal, definitions.interrupt(str(run.id))),
            terminal=Terminal(listen),
        )

    @property
    def settings(self) -> Settings:
        return self.definitions.settings

    @property
    def warehouse(self) -> Warehouse:
        return self.definitions.workspace.warehouse

    @property
    def identity(self) -> RunIdentity:
        return self.journal.run.identity
