"""The datasets of a project: read them, write them, look back, go back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import UUID, uuid4

import duckdb
from pyspark.sql import DataFrame, SparkSession

from tallyman.control.pipeline import load as define
from tallyman.control.publish import rename, rollback
from tallyman.control.publish.cleanup import Cleaned, Cleanup, Policy
from tallyman.control.publish.mutate import Writing, WrittenChange
from tallyman.control.publish.resolve import Resolved, resolve
from tallyman.control.run import upkeep
from tallyman.domain.definition.pipeline import Pipeline
from tallyman.domain.version.commit import Commit
from tallyman.domain.version.dataset import Dataset, Version, checked_name
from tallyman.domain.version.mutation import Mutation
from tallyman.engine.expressions.columns import SYSTEM
from tallyman.engine.files.intact import Damage, damaged
from tallyman.engine.spark.lent_session import forget
from tallyman.engine.spark.mode import SparkMode, is_connect
from tallyman.engine.spark.session import QUIET, open_session
from tallyman.engine.warehouse.warehouse import Warehouse
from tallyman.errors import DatasetDamaged, NotFound, UsageError
from tallyman.query.diff.diff import Difference, diff
from tallyman.query.rows import first_rows
from tallyman.registry.audit import Audit
from tallyman.registry.database import Database, Transaction
from tallyman.registry.run.invalidations import Invalidations
from tallyman.registry.version.commits import Commits
from tallyman.registry.version.datasets import Datasets
from tallyman.registry.version.snapshots import Snapshots
from tallyman.settings import Settings, read_settings


class Data:
    """What a Project can do with datasets; Spark starts only to read one into a DataFrame."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._unwanted: frozenset[str] = frozenset()
        self._mode = SparkMode(settings.master)

    @classmethod
    def open(
        cls,
        folder: str | Path | None = None,
        *,
        master: str | None = None,
        spark_conf: Mapping[str, str] | None = None,
    ) -> Self:
        return cls(read_settings(folder).with_spark(master, spark_conf or {}))

    @property
    def spark(self) -> SparkSession:
        """The session. With it comes PySpark's mode, local or Connect, until another project's is
        used or this project is closed."""
        self._mode.enter()
        return self._session

    @cached_property
    def _session(self) -> SparkSession:
        settings = self.settings
        ours = settings.redacted and not is_connect(settings.master)
        spark = {**QUIET, **settings.spark} if ours else settings.spark
        session = open_session(settings.master, spark, str(settings.state_folder))
        self._mode.keep()
        forget(session, self._unwanted - settings.spark.keys())
        return session

    @cached_property
    def pipeline(self) -> Pipeline:
        return define.load(self.settings.home / self.settings.pipelines)

    @cached_property
    def database(self) -> Database:
        given = self.settings.database
        return Database(given.reveal() if given else None, self.settings.state_folder)

    def close(self) -> None:
        """Let go of the database, whose own server stops when nobody else uses it, and of PySpark's
        mode. A session stays: other projects of this process have it too."""
        self._mode.leave()
        if "database" in self.__dict__:
            self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    @cached_property
    def warehouse(self) -> Warehouse:
        return Warehouse(self.settings.warehouse_folder)

    def resolve(self, name: str, version: int | None = None) -> Resolved:
        return self.database.durably(lambda tx: resolve(tx, self.settings.name, name, version))

    def read(
        self, name: str, *, partition: str | None = None, version: int | None = None
    ) -> DataFrame:
        """A version of a dataset, the current one unless said, as Spark sees it."""
        found = self.resolve(name, version)
        fragments = [f for f in found.fragments if partition in (None, f.partition)]
        if not fragments:
            raise NotFound("partition of", f"{name}[{partition}]")
        self.warehouse.check(name, fragments)
        return self.spark.read.parquet(*self.warehouse.paths(fragments)).drop(SYSTEM)

    def rows(
        self, name: str, version: int | None = None, *, limit: int = 20
    ) -> tuple[Resolved, list[dict[str, Any]]]:
        """The first rows of a version, without Spark."""
        found = self.resolve(name, version)
        return found, first_rows(name, self.warehouse.expected(found.fragments), limit)

    def snapshots(self, dataset: str | None = None) -> list[dict[str, Any]]:
        def work(tx: Transaction) -> list[dict[str, Any]]:
            only = Datasets(tx).get(dataset, self.settings.name).id if dataset else None
            return Snapshots(tx).list(self.settings.name, only)

        return self.database.durably(work)

    def datasets(self) -> list[Dataset]:
        return self.database.durably(lambda tx: Datasets(tx).list(self.settings.name))

    def versions(self, name: str, *, limit: int = 100) -> list[Version]:
        """Newest first."""

        def work(tx: Transaction) -> list[Version]:
            dataset = Datasets(tx).get(name, self.settings.name)
            return Commits(tx).versions(dataset.id, limit)

        return self.database.durably(work)

    def commits(self, dataset: str | None = None, *, limit: int = 20) -> list[Commit]:
        """Newest first; of one dataset, or of the project."""

        def work(tx: Transaction) -> list[Commit]:
            only = Datasets(tx).get(dataset, self.settings.name).id if dataset else None
            return Commits(tx).list(self.settings.name, only, limit)

        return self.database.durably(work)

    def stale(self) -> list[dict[str, Any]]:
        """What is current and was made from something that was replaced since."""
        return self.database.durably(lambda tx: Invalidations(tx).stale(self.settings.name))

    def heads(self) -> dict[str, int]:
        """The version of every dataset, at one moment."""
        return {dataset.name: dataset.ordinal for dataset in self.datasets()}

    # ---- writing --------------------------------------------------------------------------

    def mutate(
        self,
        statements: Mutation | Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        expected_versions: Mapping[str, int] | None = None,
        message: str | None = None,
    ) -> WrittenChange:
        """Several statements over several tables: one commit, or nothing."""
        asked = statements if isinstance(statements, Mutation) else Mutation.of(statements)
        if expected_versions:
            both = {**asked.expected_versions, **expected_versions}
            asked = replace(asked, expected_versions=both)
        if message is not None:
            asked = replace(asked, message=message)
        return self._writing().mutate(asked)

    def load(
        self,
        table: str,
        file: str | Path,
        *,
        mode: str = "append",
        expected_version: int | None = None,
        message: str | None = None,
    ) -> WrittenChange:
        """A file into a table: append new keys, merge by key, or overwrite all."""
        if mode not in ("append", "merge", "overwrite"):
            raise UsageError(f"mode is append, merge or overwrite, not {mode!r}")
        return self._writing().load(table, Path(file), mode, expected_version, message)

    def _writing(self) -> Writing:
        settings = self.settings
        return Writing(self.database, self.warehouse, self.pipeline, settings.name, settings.actor)

    # ---- names and versions ---------------------------------------------------------------

    def rename(self, dataset: str, name: str) -> Dataset:
        """Change what people call a dataset: id, paths, versions and lineage stay."""
        return self._relabel(
            dataset, lambda tx, meant: rename.rename(tx, meant, name, self.settings.actor)
        )

    def expose(self, dataset: str) -> Dataset:
        """Show a dataset to outside readers."""
        return self._relabel(
            dataset, lambda tx, meant: rename.expose(tx, meant, self.settings.actor)
        )

    def hide(self, dataset: str) -> Dataset:
        """Hide a dataset from outside readers; the project still reads it."""
        return self._relabel(dataset, lambda tx, meant: rename.hide(tx, meant, self.settings.actor))

    def _relabel(self, dataset: str, change: Callable[[Transaction, UUID], Dataset]) -> Dataset:
        # First which one is meant: once it is renamed, its old name does not find it.
        meant = self.database.durably(lambda tx: Datasets(tx).own(dataset, self.settings.name))
        return self.database.durably(lambda tx: change(tx, meant.id))

    def snapshot(self, name: str, alias: str, *, version: int | None = None) -> Version:
        """A name for a version, the current one unless said, that never moves."""
        checked_name(alias)

        # First which version is meant: another may be current when it has to be said again.
        meant = self.resolve(name, version)
        ordinal = meant.version.ordinal

        def work(tx: Transaction) -> Version:
            Datasets(tx).lock([meant.dataset.id])  # cleanup waits, or has been here before
            found = resolve(tx, self.settings.name, name, ordinal)
            if Snapshots(tx).add(alias, found.dataset.id, ordinal, self.settings.actor):
                Commits(tx).expose({alias: found.version.metadata_location})
                details = {"dataset": found.dataset.name, "version": ordinal}
                Audit(tx).add("snapshot.made", self.settings.actor, alias, details=details)
            return found.version

        return self.database.durably(work)

    def rollback(
        self,
        name: str | None = None,
        *,
        to: int | None = None,
        commit: str | None = None,
        message: str | None = None,
    ) -> Commit | None:
        """Everything as it was after a commit, or one dataset as it was at a version."""
        if (commit is None) == (name is None or to is None):
            raise UsageError("roll back to a commit, or a dataset to one of its versions")
        asked = rollback.asking(uuid4(), self.settings.actor, self.settings.name, message)

        def work(tx: Transaction) -> Commit | None:
            if commit is not None:
                return rollback.to_commit(tx, self.warehouse, asked, commit)
            assert name is not None
            assert to is not None
            tables = self.pipeline.tables
            return rollback.to_version(tx, self.warehouse, asked, name, to, tables)

        return self.database.durably(work)

    # ---- looking at the files --------------------------------------------------------------

    def diff(self, name: str, before: int, after: int, *, limit: int = 20) -> Difference:
        """Row by row, by the dataset's key; fragments that both have are not read."""
        old, new = self.resolve(name, before), self.resolve(name, after)
        both = {f.id for f in old.fragments} & {f.id for f in new.fragments}
        sides = [[f for f in side.fragments if f.id not in both] for side in (old, new)]
        for side in sides:
            self.warehouse.check(name, side)
        paths = [self.warehouse.paths(side) for side in sides]
        try:
            return diff(*paths, key=new.dataset.key_columns, limit=limit)
        except duckdb.Error as error:
            raise DatasetDamaged(name, str(error).splitlines()[0]) from error

    def damaged(self, name: str, version: int | None = None) -> tuple[Resolved, list[Damage]]:
        """Files of a version, and of its metadata, that are not byte for byte what was published.
        Every byte is read."""
        found = self.resolve(name, version)
        files = self.warehouse.expected(found.fragments)
        about = self.warehouse.expected_metadata(found.fragments, found.version.metadata_files)
        return found, damaged([*files, *about])

    def cleanup(
        self,
        *,
        older_than_s: float = 86400,
        keep_versions: int | None = None,
        confirm: bool = False,
    ) -> list[Cleaned]:
        """Remove what nothing points to; without `confirm` only list it."""
        policy = Policy(older_than_s, keep_versions, confirm)
        return self._cleanup().run(policy)

    def cleanup_events(self, *, older_than_s: float = 86400, confirm: bool = False) -> int:
        """Removes lineage events that were sent, from the spool alone; how many."""
        return self._cleanup().events(Policy(older_than_s, confirm=confirm))

    def purge(self, name: str, version: int) -> Cleaned:
        """One version for good."""
        return self._cleanup().purge(name, version)

    def _cleanup(self) -> Cleanup:
        settings = self.settings
        # A run whose process was killed is not at work: what it staged is nobody's.
        upkeep.upkeep(self.database, settings)
        return Cleanup(self.database, self.warehouse, settings.home, settings.name, settings.actor)
