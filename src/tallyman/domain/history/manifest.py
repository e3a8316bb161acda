"""manifest.json: what a run is bound to. Only this module knows the names of its keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from tallyman.domain.pipeline.target import Target

SOURCE = "source"
VERSION = "2.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeVersion:
    """The version of a pipeline's code. Without git, or for untracked files, only the hash is
    known.
    """

    source_hash: str
    git_commit: str | None = None
    git_branch: str | None = None
    git_dirty: bool | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "git_commit": self.git_commit,
            "git_branch": self.git_branch,
            "git_dirty": self.git_dirty,
            "source_hash": self.source_hash,
        }

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> CodeVersion:
        return cls(
            source_hash=found["source_hash"],
            git_commit=found.get("git_commit"),
            git_branch=found.get("git_branch"),
            git_dirty=found.get("git_dirty"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundInput:
    """An input that the run does not make itself: files of a source, or a version of a dataset."""

    kind: str
    hash: str | None = None
    """The content hash; None if the input could not be read."""
    path: str | None = None
    """The path of a source, or the name of a dataset of another pipeline."""
    partition: str | None = None
    dataset_id: str | None = None
    version: int | None = None
    files: int = 0
    bytes: int = 0
    problem: str | None = None

    @property
    def of_source(self) -> bool:
        return self.kind == SOURCE

    def to_json(self) -> dict[str, Any]:
        place = (
            {"path": self.path}
            if self.of_source
            else {"dataset_id": self.dataset_id, "version": self.version}
        )
        if self.path is not None and not self.of_source:
            place["dataset"] = self.path
        return {
            "kind": self.kind,
            **place,
            **({"partition": self.partition} if self.partition else {}),
            "files": self.files,
            "bytes": self.bytes,
            "hash": self.hash,
            **({"problem": self.problem} if self.problem is not None else {}),
        }

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> BoundInput:
        return cls(
            kind=found["kind"],
            hash=found.get("hash"),
            path=found.get("path", found.get("dataset")),
            partition=found.get("partition"),
            dataset_id=found.get("dataset_id"),
            version=found.get("version"),
            files=found.get("files", 0),
            bytes=found.get("bytes", 0),
            problem=found.get("problem"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundTarget:
    """A target of the run. `folder` is the place of its files, relative to the run folder."""

    target: Target
    folder: str
    definition_hash: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "asset": self.target.asset,
            "partition": self.target.partition,
            "folder": self.folder,
            "definition_hash": self.definition_hash,
        }

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> BoundTarget:
        return cls(
            target=Target(found["asset"], found.get("partition")),
            folder=found["folder"],
            definition_hash=found.get("definition_hash"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessingWindow:
    """The first day to the end of the last; without days, only the number of partitions."""

    start: str | None = None
    end: str | None = None
    partitions: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"start": self.start, "end": self.end, "partitions": self.partitions}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The content of one manifest.json."""

    run_id: str
    targets: tuple[BoundTarget, ...]
    project: str
    actor: str
    timestamp: str
    folder_name: str
    config_hash: str
    code: CodeVersion
    inputs: Mapping[str, BoundInput]
    pipeline_version: str | None
    window: ProcessingWindow
    environment: Mapping[str, Any]
    locations: Mapping[str, Any]
    openlineage_run_id: str

    @property
    def id(self) -> UUID:
        return UUID(self.openlineage_run_id)

    @property
    def started_at(self) -> datetime:
        """Read the run's clock: the time that its expressions saw."""
        return datetime.fromisoformat(self.timestamp)

    @property
    def folder(self) -> str:
        """Return the run folder, relative to the project."""
        return str(self.locations["run_dir"])

    @property
    def definitions(self) -> dict[str, str | None]:
        """Map each asset to the hash of its definition."""
        return {one.target.asset: one.definition_hash for one in self.targets}

    @property
    def folders(self) -> dict[Target, str]:
        """Map each target to its folder, relative to the run folder."""
        return {one.target: one.folder for one in self.targets}

    def to_json(self) -> dict[str, Any]:
        return {
            "manifest_version": VERSION,
            "run_id": self.run_id,
            "project": self.project,
            "actor": self.actor,
            "timestamp": self.timestamp,
            "folder_name": self.folder_name,
            "cryptographic_binding": {
                "config_hash": self.config_hash,
                "code_version": self.code.to_json(),
                "input_hashes": {name: given.to_json() for name, given in self.inputs.items()},
            },
            "pipeline_version": self.pipeline_version,
            "assets": list(self.definitions),
            "targets": [one.to_json() for one in self.targets],
            "processing_window": self.window.to_json(),
            "execution_metadata": dict(self.environment),
            "output_locations": dict(self.locations),
            "openlineage_run_id": self.openlineage_run_id,
        }

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> Manifest:
        """Read what `to_json` wrote; ValueError if it is not a manifest."""
        try:
            if found["manifest_version"] != VERSION:
                raise ValueError(f"it is of version {found['manifest_version']}, not {VERSION}")
            binding = found["cryptographic_binding"]
            return cls(
                run_id=str(found["run_id"]),
                targets=tuple(map(BoundTarget.of_json, found["targets"])),
                project=found["project"],
                actor=found["actor"],
                timestamp=found["timestamp"],
                folder_name=found["folder_name"],
                config_hash=binding["config_hash"],
                code=CodeVersion.of_json(binding["code_version"]),
                inputs={n: BoundInput.of_json(one) for n, one in binding["input_hashes"].items()},
                pipeline_version=found["pipeline_version"],
                window=ProcessingWindow(**found["processing_window"]),
                environment=dict(found["execution_metadata"]),
                locations=dict(found["output_locations"]),
                openlineage_run_id=found["openlineage_run_id"],
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"it is not a manifest: {error!r}") from error
