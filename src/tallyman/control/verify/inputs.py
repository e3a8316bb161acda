"""Check that everything a run is bound to is still the same: first the binding itself, then config,
code and inputs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tallyman.control.bind.changes import changes
from tallyman.control.bind.inputs import Pins
from tallyman.control.bind.manifest import VOLATILE, config_of, inputs_of, label
from tallyman.control.pipeline.definitions import Definitions
from tallyman.control.verify.bound_change import (
    ABSENT,
    BindingChange,
    code_change,
    file_change,
    hash_of,
    input_change,
    other_seal,
    setting_change,
)
from tallyman.domain.definition.canonical_json import canonical_hash, changed, flattened, hashed
from tallyman.domain.history.manifest import BoundInput, Manifest
from tallyman.domain.history.materialization import RunRecord
from tallyman.domain.history.seal import Seal
from tallyman.domain.pipeline.target import Reading, Target, readings
from tallyman.domain.version.dataset import Fragment
from tallyman.engine.files.listing import sha256
from tallyman.engine.files.past_run import Run
from tallyman.engine.files.run_folder import CONFIG, MANIFEST
from tallyman.engine.warehouse.warehouse import Warehouse
from tallyman.registry.seals import Seals


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The first change, if any, and what was checked before it."""

    run_id: str
    change: BindingChange | None
    checked: Mapping[str, Any] = field(default_factory=dict)
    sealed: bool = True
    """True if a seal vouches for the manifest."""

    def to_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "same": self.change is None,
            "sealed": self.sealed,
            "first_difference": self.change.to_json() if self.change else None,
            "checked": dict(self.checked),
        }


@dataclass
class Bound:
    """A run, what its manifest binds it to, and the current state of the same things."""

    record: RunRecord
    definitions: Definitions
    """With the options that the run began with."""

    @property
    def folder(self) -> Path:
        return self.definitions.settings.home / self.record.folder

    @cached_property
    def run(self) -> Run:
        return Run.open(self.folder)

    def check(self) -> Checked:
        """Check in order, and stop at the first difference: later ones may be consequences of
        it."""
        looked: dict[str, Any] = {}
        for kind, differences in (
            ("manifest", self.seal_changes),
            ("config", self.config_changes),
            ("code", self.code_changes),
            ("inputs", self.input_changes),
        ):
            change = next(iter(differences()), None)
            if change is not None:
                return self._checked(change, looked)
            looked[kind] = self._looked_at(kind)
        return self._checked(None, looked)

    def _checked(self, change: BindingChange | None, looked: Mapping[str, Any]) -> Checked:
        name, sealed = self.record.name, self.sealed is not None
        return Checked(run_id=name, change=change, checked=looked, sealed=sealed)

    def _looked_at(self, kind: str) -> Any:
        if kind == "manifest":
            found = self.sealed or {}
            return {name: found.get(name) for name in ("ordinal", "hash")}
        if kind == "config":
            return {"settings": len(flattened(self.config)), "hash": self.manifest.config_hash}
        if kind == "code":
            return self.manifest.code.to_json()
        listed = self.manifest.inputs.values()
        files, size = sum(one.files for one in listed), sum(one.bytes for one in listed)
        return {"inputs": len(listed), "files": files, "bytes": size}

    @property
    def manifest(self) -> Manifest:
        return self.run.manifest

    @cached_property
    def targets(self) -> list[Target]:
        return [one.target for one in self.manifest.targets]

    @cached_property
    def pins(self) -> Pins:
        """Pin every dataset at the version that the run read."""
        return Pins(self.definitions.workspace, ordinals=self.record.pins)

    # ---- the binding itself ---------------------------------------------------------------

    @cached_property
    def sealed(self) -> Mapping[str, Any] | None:
        """The newest seal in the registry; None if the run has not ended."""
        run = self.record.id
        rows = self.definitions.database.durably(lambda tx: Seals(tx).of_run(run))
        return rows[0] if rows else None

    @cached_property
    def seal_change(self) -> BindingChange | None:
        """The first change of the sealed files. Hashes in the folder can be rewritten together with
        the files; those in the registry cannot."""
        return next(self.seal_changes(), None)

    def seal_changes(self) -> Iterator[BindingChange]:
        if self.sealed is None:
            return
        body, known = str(self.sealed["body"]), str(self.sealed["hash"])
        seal = Seal.if_whole(body)
        if seal is None or hashed(body) != known:
            yield other_seal(known, hashed(body))
            return
        # These files are written once, when the run begins; a resume does not change them.
        for name in (MANIFEST, CONFIG):
            then, now = seal.files.get(name), _sha256_of(self.folder / name)
            if then != now:
                yield file_change(name, then, now)

    # ---- config ---------------------------------------------------------------------------

    @cached_property
    def config(self) -> dict[str, Any]:
        """The settings in config.json; empty if it is missing or not the sealed one."""
        path = self.folder / CONFIG
        if self.seal_change is not None or not path.exists():
            return {}
        found = json.loads(path.read_text(encoding="utf-8"))
        return {name: value for name, value in found.items() if name != VOLATILE}

    @property
    def config_is_bound(self) -> bool:
        """True if config.json matches the hash in the manifest."""
        return canonical_hash(self.config) == self.manifest.config_hash

    def config_changes(self) -> Iterator[BindingChange]:
        if not self.config_is_bound:
            bound, kept = self.manifest.config_hash, canonical_hash(self.config)
            # The original values are unknown, so only hashes are shown.
            yield BindingChange(
                kind="config",
                name=CONFIG,
                then=bound,
                now=kept,
                message=f"{CONFIG} of the run does not match its manifest: "
                f"{bound} then, {kept} now",
                advice="the run's own files were changed; list them:  tallyman verify",
            )
            return
        now = config_of(self.definitions, self._still_declared(), self.record.params.options)
        for path, then, given in changed(self.config, now, absent=ABSENT):
            yield setting_change(path, then, given)

    def _still_declared(self) -> list[Target]:
        return [t for t in self.targets if t.asset in self.definitions.pipeline.assets]

    # ---- code -----------------------------------------------------------------------------

    def code_changes(self) -> Iterator[BindingChange]:
        change = code_change(self.manifest.code, self.definitions.code())
        if change is not None:
            yield change

    # ---- inputs ---------------------------------------------------------------------------

    def input_changes(self) -> Iterator[BindingChange]:
        """Compare inputs. Sources are hashed again; for a version, its stored files are checked."""
        then = self.manifest.inputs
        now = inputs_of(self.definitions.pipeline, self.targets, self.pins)
        hashes = [{name: hash_of(one) for name, one in side.items()} for side in (then, now)]
        changed = {change.name for change in changes(*hashes)}
        for name in dict.fromkeys([*then, *now]):
            before, after = then.get(name), now.get(name)
            if name in changed:
                yield input_change(name, before, after)
            elif before and not before.of_source:
                yield from self._damage(name, before)

    def _damage(self, name: str, before: BoundInput) -> Iterator[BindingChange]:
        reading = self._readings[name]
        problem = damage(self.pins.workspace.warehouse, self.pins.fragments(reading))
        if problem:
            where = f"{name} (v{before.version} of its dataset)"
            yield BindingChange(
                kind="input",
                name=name,
                then=before.to_json(),
                now=replace(before, hash=None, problem=problem).to_json(),
                message=f"Input data has changed: {where}: {before.hash} then, {problem} now",
                advice=f"see also:  tallyman verify dataset {reading.name} "
                f"--version {before.version}",
            )

    @cached_property
    def _readings(self) -> dict[str, Reading]:
        found: dict[str, Reading] = {}
        for target in self.targets:
            for reading in readings(self.definitions.pipeline, target):
                found.setdefault(label(reading), reading)
        return found


def _sha256_of(path: Path) -> str | None:
    try:
        return sha256(str(path))
    except OSError:
        return None


def damage(warehouse: Warehouse, fragments: Sequence[Fragment]) -> str | None:
    """Describe damaged files of a version; None if all bytes match."""
    total = sum(len(fragment.files) for fragment in fragments)
    gone = other = 0
    for fragment in fragments:
        folder = warehouse.of(fragment)
        for file in fragment.files:
            if not (folder / file.path).is_file():
                gone += 1
            elif sha256(str(folder / file.path)) != file.sha256:
                other += 1
    if gone:
        return f"{gone:,} of its {total:,} files are missing"
    return f"{other:,} of its {total:,} files have changed" if other else None
