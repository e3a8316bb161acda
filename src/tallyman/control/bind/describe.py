"""Describe a run in its folder: what it is bound to, written once, before its first target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tallyman.control.bind.manifest import BoundPins, bind, config_file, manifest_of
from tallyman.control.pipeline.definitions import Definitions
from tallyman.domain.history.materialization import RunRecord
from tallyman.domain.pipeline.target import Target
from tallyman.engine.files.run_folder import CONFIG, MANIFEST, RunFolder


@dataclass(frozen=True, slots=True)
class RunDescription:
    """The two files that say what a run is bound to."""

    config: Mapping[str, Any]
    manifest: Mapping[str, Any]

    def write_again(self, folder: RunFolder) -> None:
        """Write the files of another attempt at a run of one target, which may read other versions
        by another pipeline; those of an earlier attempt are moved to `attempts/`."""
        for name, content in ((CONFIG, self.config), (MANIFEST, self.manifest)):
            if folder.read(name) != content:
                folder.set_aside(name, 1)
        self.write(folder)

    def write(self, folder: RunFolder) -> None:
        """Write the files, unless they are there: a resume finds them."""
        for name, content in ((CONFIG, self.config), (MANIFEST, self.manifest)):
            if not (folder.path / name).exists():
                folder.write(name, content)


def description(
    definitions: Definitions, run: RunRecord, targets: Sequence[Target], pins: BoundPins
) -> RunDescription:
    """Bind a run to the current state of config, code and inputs."""
    binding = bind(definitions, targets, run, pins)
    return RunDescription(
        config=config_file(binding.config, run, definitions.settings.master),
        manifest=manifest_of(run.identity, run, definitions, targets, binding),
    )
