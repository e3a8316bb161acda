"""Is everything a run was bound to still the same? Config, code and inputs, in that order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from uuid import UUID

from tallyman.control.definitions import Definitions
from tallyman.control.inputs import Pins
from tallyman.control.manifest import MANIFEST_VERSION, VOLATILE, config_of, inputs_of, label
from tallyman.domain.canonical_json import sha256_of
from tallyman.domain.dataset import Fragment
from tallyman.domain.materialization import RunRecord
from tallyman.domain.target import Reading, Target, readings
from tallyman.engine.code_version import CodeVersion, code_version
from tallyman.engine.files import sha256
from tallyman.engine.run_folder import CONFIG
from tallyman.engine.runs import Run
from tallyman.engine.warehouse import Warehouse
from tallyman.errors import NotBound

ABSENT = "absent"
"""Shown for a setting that one side does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that is not as it was."""

    kind: str
    name: str
    then: Any
    now: Any
    message: str
    advice: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "then": self.then,
            "now": self.now,
            "message": self.message,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The first change, or none; what was looked at until then."""

    run_id: str
    change: Change | None
    checked: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "same": self.change is None,
            "first_difference": self.change.to_json() if self.change else None,
            "checked": dict(self.checked),
        }


@dataclass
class Bound:
    """A run, what its manifest bound it to, and the same things as they are now."""

    record: RunRecord
    run: Run
    definitions: Definitions
    """With the options that the run was begun with."""

    def __post_init__(self) -> None:
        version = str(self.run.manifest.get("manifest_version"))
        if version != MANIFEST_VERSION:
            raise NotBound(self.record.name, version)

    def check(self) -> Checked:
        """Stops at the first difference: what comes after may be no more than its consequence."""
        looked: dict[str, Any] = {}
        for kind, changes in (
            ("config", self.config_changes),
            ("code", self.code_changes),
            ("inputs", self.input_changes),
        ):
            change = next(iter(changes()), None)
            if change is not None:
                return Checked(run_id=self.record.name, change=change, checked=looked)
            looked[kind] = self._looked_at(kind)
        return Checked(run_id=self.record.name, change=None, checked=looked)

    def _looked_at(self, kind: str) -> Any:
        if kind == "config":
            return {"settings": len(flattened(self.config)), "hash": self.binding["config_hash"]}
        if kind == "code":
            return dict(self.binding["code_version"])
        listed = list(self.binding["input_hashes"].values())
        files, size = (sum(one[name] for one in listed) for name in ("files", "bytes"))
        return {"inputs": len(listed), "files": files, "bytes": size}

    @property
    def binding(self) -> Mapping[str, Any]:
        return self.run.manifest["cryptographic_binding"]

    @cached_property
    def targets(self) -> list[Target]:
        return [Target(t["asset"], t["partition"]) for t in self.run.manifest["targets"]]

    @cached_property
    def pins(self) -> Pins:
        """Every dataset at the version that the run read."""
        found = self.definitions
        ordinals = {UUID(dataset): ordinal for dataset, ordinal in self.record.pins.items()}
        return Pins(found.pipeline, found.database, found.settings, ordinals=ordinals)

    # ---- config ---------------------------------------------------------------------------

    @cached_property
    def config(self) -> dict[str, Any]:
        """As config.json has it; empty when it is gone."""
        path = self.run.folder / CONFIG
        if not path.exists():
            return {}
        found = json.loads(path.read_text(encoding="utf-8"))
        return {name: value for name, value in found.items() if name != VOLATILE}

    @property
    def config_is_bound(self) -> bool:
        """Whether config.json is what the manifest binds."""
        return sha256_of(self.config) == self.binding["config_hash"]

    def config_changes(self) -> Iterator[Change]:
        if not self.config_is_bound:
            bound, kept = self.binding["config_hash"], sha256_of(self.config)
            # Without its values only the hashes can be told, and those of the file are no proof.
            yield Change(
                kind="config",
                name=CONFIG,
                then=bound,
                now=kept,
                message=f"{CONFIG} of the run is not what its manifest binds: "
                f"{bound} then, {kept} now",
                advice="the run's own files were changed:  tallyman verify tells which",
            )
            return
        now = flattened(config_of(self.definitions, self._still_declared(), self.record.params))
        then = flattened(self.config)
        for path in dict.fromkeys([*then, *now]):
            if then.get(path, ABSENT) != now.get(path, ABSENT):
                yield _setting(path, then.get(path, ABSENT), now.get(path, ABSENT))

    def _still_declared(self) -> list[Target]:
        return [t for t in self.targets if t.asset in self.definitions.pipeline.assets]

    # ---- code -----------------------------------------------------------------------------

    @cached_property
    def code(self) -> CodeVersion:
        settings = self.definitions.settings
        return code_version(settings.home / settings.pipelines)

    def code_changes(self) -> Iterator[Change]:
        then, now = self.binding["code_version"], self.code
        same_files = then["source_hash"] == now.source_hash
        files = f"source_hash {then['source_hash']} then, {now.source_hash} now"
        if then["git_commit"] and now.git_commit and then["git_commit"] != now.git_commit:
            own = "are the same" if same_files else f"differ: {files}"
            yield Change(
                kind="code",
                name="git_commit",
                then=then["git_commit"],
                now=now.git_commit,
                message=f"Code has changed: commit {then['git_commit']} then, {now.git_commit} "
                f"now; the pipeline's own files {own}",
                advice=f"as it was:  git checkout {then['git_commit']}",
            )
        elif not same_files:
            yield Change(
                kind="code",
                name="source_hash",
                then=then["source_hash"],
                now=now.source_hash,
                message=f"Code has changed: {files}{_uncommitted(then, now)}",
            )

    # ---- inputs ---------------------------------------------------------------------------

    def input_changes(self) -> Iterator[Change]:
        """Sources are hashed anew; of a version, its rows are known and its files are checked."""
        then = self.binding["input_hashes"]
        now = inputs_of(self.definitions.pipeline, self.targets, self.pins)
        for name in dict.fromkeys([*then, *now]):
            before, after = then.get(name), now.get(name)
            if _hash(before) != _hash(after):
                yield input_change(name, before, after)
            elif before and before["kind"] != "source":
                yield from self._damage(name, before)

    def _damage(self, name: str, before: Mapping[str, Any]) -> Iterator[Change]:
        reading = self._readings[name]
        problem = damage(self.pins.warehouse, self.pins.fragments(reading))
        if problem:
            where = f"{name} (v{before['version']} of its dataset)"
            yield Change(
                kind="input",
                name=name,
                then=dict(before),
                now={**before, "hash": None, "problem": problem},
                message=f"Input data has changed: {where}: {before['hash']} then, {problem} now",
                advice=f"look closer:  tallyman verify --dataset {reading.name} "
                f"--version {before['version']}",
            )

    @cached_property
    def _readings(self) -> dict[str, Reading]:
        found: dict[str, Reading] = {}
        for target in self.targets:
            for reading in readings(self.definitions.pipeline, target):
                found.setdefault(label(reading), reading)
        return found


def damage(warehouse: Warehouse, fragments: Sequence[Fragment]) -> str | None:
    """What is wrong with the files of a version, byte for byte."""
    total = sum(len(fragment.files) for fragment in fragments)
    gone = other = 0
    for fragment in fragments:
        folder = warehouse.dataset(fragment.dataset_id)
        for file in fragment.files:
            if not (folder / file.path).is_file():
                gone += 1
            elif sha256(str(folder / file.path)) != file.sha256:
                other += 1
    if gone:
        return f"{gone:,} of its {total:,} files are gone"
    return f"{other:,} of its {total:,} files have other bytes" if other else None


def flattened(value: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Every setting by its path: `assets.daily.thresholds.percentage`."""
    found: dict[str, Any] = {}
    for name, given in value.items():
        path = f"{above}.{name}" if above else str(name)
        if isinstance(given, Mapping) and given:
            found |= flattened(given, path)
        else:
            found[path] = given
    return found


def _setting(path: str, then: Any, now: Any) -> Change:
    told = [one if one == ABSENT else json.dumps(one, ensure_ascii=False) for one in (then, now)]
    return Change(
        kind="config",
        name=path,
        then=None if then == ABSENT else then,
        now=None if now == ABSENT else now,
        message=f"Config has changed: {path}: {told[0]} then, {told[1]} now",
    )


def _uncommitted(then: Mapping[str, Any], now: CodeVersion) -> str:
    if now.git_commit is None or then["git_commit"] != now.git_commit:
        return ""
    sides = [name for name, dirty in (("then", then["git_dirty"]), ("now", now.git_dirty)) if dirty]
    return f" (commit {now.git_commit}, with uncommitted changes {' and '.join(sides) or 'aside'})"


def _hash(given: Mapping[str, Any] | None) -> Any:
    return given and given["hash"]


def input_change(
    name: str, then: Mapping[str, Any] | None, now: Mapping[str, Any] | None
) -> Change:
    known = then or now or {}
    where = known.get("path") or f"v{known.get('version')} of its dataset"
    missing = now is None or now["hash"] is None
    word = "Input is missing" if missing else "Input data has changed"
    hashes = f"{_shown_hash(then)} then, {_shown_hash(now)} now"
    sizes = f"{_size(then)} then; {_size(now)} now"
    return Change(
        kind="input",
        name=name,
        then=dict(then) if then else None,
        now=dict(now) if now else None,
        message=f"{word}: {name} ({where}): {hashes} ({sizes})",
    )


def _shown_hash(given: Mapping[str, Any] | None) -> str:
    return str(_hash(given) or "nothing there")


def _size(given: Mapping[str, Any] | None) -> str:
    known = given or {}
    files, size = known.get("files", 0), known.get("bytes", 0)
    return f"{files:,} file{'s' if files != 1 else ''}, {size:,} bytes"
