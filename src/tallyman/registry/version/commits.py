"""Commits and versions: written together, never changed, in one line per pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from tallyman.domain.version.commit import Change, Commit, Move, Publication
from tallyman.domain.version.dataset import DataFile, Dataset, Version
from tallyman.domain.version.owner import Owner
from tallyman.errors import NotFound, UsageError, VersionNotWhole
from tallyman.registry.database import Transaction

COLUMNS = """
    c.id, c.seq, c.kind, c.parent, c.actor, c.org, c.project, c.run_id, c.message,
    c.pipeline_version, c.details, c.created_at
"""
VERSION_COLUMNS = """
    v.id, v.dataset_id, v.ordinal, v.operation, v.commit_id, v.row_count AS rows,
    v.byte_count AS bytes, v.file_count AS files, v.restores, v.metadata_location, v.created_at,
    v.purged_at, v.metadata_files
"""
ADD_HEAD = """
    INSERT INTO heads (org, project) VALUES (%(org)s, %(project)s) ON CONFLICT DO NOTHING
"""
LOCK_HEAD = """
    SELECT commit_id FROM heads WHERE org = %(org)s AND project = %(project)s FOR UPDATE
"""
ADD = """
    INSERT INTO commits (id, kind, parent, actor, org, project, run_id, message, pipeline_version,
                         details, key)
    VALUES (%(id)s, %(kind)s, %(parent)s, %(actor)s, %(org)s, %(project)s, %(run_id)s,
            %(message)s, %(pipeline_version)s, %(details)s, %(key)s)
"""
MOVE_HEAD = """
    UPDATE heads SET commit_id = %(id)s WHERE org = %(org)s AND project = %(project)s
"""
ADD_VERSION = """
    INSERT INTO versions (id, dataset_id, ordinal, commit_id, operation, restores, row_count,
                          byte_count, file_count, metadata_location, metadata_files)
    VALUES (%(id)s, %(dataset_id)s, %(ordinal)s, %(commit_id)s, %(operation)s, %(restores)s,
            %(rows)s, %(bytes)s, %(files)s, %(metadata_location)s, %(metadata_files)s)
"""
BY_KEY = f"SELECT {COLUMNS} FROM commits c WHERE c.key = %(key)s"
OF_RUN = f"""
    SELECT {COLUMNS} FROM commits c WHERE c.run_id = %(run)s ORDER BY c.seq DESC LIMIT 1
"""
PIPELINE_AT = """
    SELECT pipeline_version FROM commits
    WHERE org = %(org)s AND project = %(project)s AND seq <= %(seq)s
      AND pipeline_version IS NOT NULL
    ORDER BY seq DESC LIMIT 1   -- a mutation or a load does not change the pipeline
"""
BY_PREFIX = f"""
    SELECT {COLUMNS} FROM commits c
    WHERE c.org = %(org)s AND c.project = %(project)s
      AND starts_with(c.id::text, %(wanted)s) LIMIT 3
"""
LIST = f"""
    SELECT {COLUMNS} FROM commits c
    WHERE c.org = %(org)s AND c.project = %(project)s
      AND (%(dataset)s::uuid IS NULL
           OR EXISTS (SELECT FROM versions v
                      WHERE v.commit_id = c.id AND v.dataset_id = %(dataset)s))
    ORDER BY c.seq DESC LIMIT %(limit)s
"""
MOVES = """
    SELECT v.commit_id, d.name AS dataset, v.ordinal, v.operation, v.row_count AS rows,
           coalesce(before.row_count, 0) AS rows_before, v.restores
    FROM versions v JOIN datasets d ON d.id = v.dataset_id
    LEFT JOIN versions before ON before.dataset_id = d.id AND before.ordinal = v.ordinal - 1
    WHERE v.commit_id = ANY(%(commits)s) ORDER BY d.name
"""
VERSIONS = f"""
    SELECT {VERSION_COLUMNS} FROM versions v WHERE v.dataset_id = %(dataset)s
    ORDER BY v.ordinal DESC LIMIT %(limit)s
"""
VERSION = f"""
    SELECT {VERSION_COLUMNS} FROM versions v
    WHERE v.dataset_id = %(dataset)s AND v.ordinal = %(ordinal)s
"""
GONE_BACK_SINCE = """
    SELECT 1 FROM versions
    WHERE dataset_id = %(dataset)s AND operation IN ('restore', 'remove') AND created_at > %(at)s
    LIMIT 1
"""
# Up to the next version of the dataset: another of them may have moved while this one was current.
WHILE_CURRENT = """
    SELECT coalesce((SELECT c.seq - 1 FROM versions v JOIN commits c ON c.id = v.commit_id
                     WHERE v.dataset_id = %(dataset)s AND v.ordinal = %(ordinal)s + 1),
                    (SELECT max(seq) FROM commits)) AS seq
"""
# Of a version that was just added: its fragments have its rows, or those of the version that it
# restores, and none but fragments of the scopes came or went.
CLOSURE = """
    SELECT coalesce(restored.row_count, v.row_count) AS stated,
           coalesce(sum(f.row_count) FILTER (WHERE vf.until IS NULL), 0) AS rows,
           count(*) FILTER (WHERE vf.until IS NULL AND f.purged_at IS NOT NULL) AS purged,
           count(*) FILTER (WHERE v.ordinal IN (vf.since, vf.until) AND NOT %(whole)s
                              AND coalesce(f.partition, '') <> ALL(%(scopes)s)) AS others
    FROM versions v
    LEFT JOIN versions restored ON restored.dataset_id = v.dataset_id
                               AND restored.ordinal = v.restores
    LEFT JOIN (version_fragments vf JOIN fragments f ON f.id = vf.fragment_id)
         ON vf.dataset_id = v.dataset_id AND (vf.until IS NULL OR vf.until = v.ordinal)
    WHERE v.dataset_id = %(dataset)s AND v.ordinal = %(ordinal)s
    GROUP BY restored.row_count, v.row_count
"""
AS_OF = """
    SELECT DISTINCT ON (v.dataset_id) v.dataset_id, v.ordinal
    FROM versions v JOIN commits c ON c.id = v.commit_id JOIN datasets d ON d.id = v.dataset_id
    WHERE c.seq <= %(seq)s AND d.org = %(org)s AND d.project = %(project)s
    ORDER BY v.dataset_id, v.ordinal DESC
"""


class Commits:
    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def lock_head(self, owner: Owner) -> UUID | None:
        """Lock the head of the pipeline's commits. It is the last lock of a publication, so it is
        held only briefly."""
        self.tx.execute(ADD_HEAD, owner.key)
        row = self.tx.execute(LOCK_HEAD, owner.key).fetchone()
        assert row is not None
        return row["commit_id"]

    def add(self, commit: UUID, parent: UUID | None, asked: Publication) -> None:
        given = asked.owner.key | {
            "id": commit,
            "kind": asked.kind,
            "parent": parent,
            "actor": asked.actor[:255],
            "run_id": asked.run_id,
            "message": asked.message,
            "pipeline_version": asked.pipeline_version,
            "details": Jsonb(dict(asked.details)),
            "key": asked.key,
        }
        self.tx.execute(ADD, given)
        self.tx.execute(MOVE_HEAD, asked.owner.key | {"id": commit})

    def add_versions(self, versions: Sequence[Version]) -> None:
        rows = [asdict(version) for version in versions]
        with self.tx.cursor() as cursor:
            cursor.executemany(
                ADD_VERSION, [r | {"metadata_files": Jsonb(r["metadata_files"])} for r in rows]
            )

    # ---- queries ----------------------------------------------------------------------------

    def by_key(self, key: UUID) -> Commit | None:
        row = self.tx.execute(BY_KEY, {"key": key}).fetchone()
        return self._whole([row])[0] if row else None

    def of_run(self, run: UUID) -> Commit | None:
        """Return the run's last commit."""
        row = self.tx.execute(OF_RUN, {"run": run}).fetchone()
        return self._whole([row])[0] if row else None

    def get(self, wanted: str, owner: Owner) -> Commit:
        """Find a commit by id or a unique prefix of it."""
        rows = self.tx.execute(BY_PREFIX, owner.key | {"wanted": wanted.lower()}).fetchall()
        if not wanted or not rows:
            raise NotFound("commit", wanted)
        if len(rows) > 1:
            raise UsageError(f"commit {wanted!r} is not unique: give a longer prefix")
        return self._whole(rows)[0]

    def _whole(self, rows: Sequence[Mapping[str, Any]]) -> list[Commit]:
        moves: dict[UUID, list[Move]] = {row["id"]: [] for row in rows}
        for found in self.tx.execute(MOVES, {"commits": list(moves)}).fetchall():
            moves[found.pop("commit_id")].append(Move(**found))
        return [_commit(row, moves[row["id"]]) for row in rows]

    def versions(self, dataset: UUID, limit: int = 100) -> list[Version]:
        """List versions, newest first."""
        rows = self.tx.execute(VERSIONS, {"dataset": dataset, "limit": limit}).fetchall()
        return [_version(row) for row in rows]

    def version(self, dataset: Dataset, ordinal: int | None = None) -> Version:
        """Return the current version, or the one with this number."""
        wanted = dataset.ordinal if ordinal is None else ordinal
        row = self.tx.execute(VERSION, {"dataset": dataset.id, "ordinal": wanted}).fetchone()
        if row is None and ordinal is None:
            raise NotFound("version of", dataset.name)
        if row is None:
            newest = f"v{dataset.ordinal}" if dataset.ordinal else None
            raise NotFound(f"version of {dataset.name}", f"v{wanted}", newest)
        return _version(row)

    def gone_back_since(self, dataset: UUID, at: datetime) -> bool:
        """True if rows that existed then may have been removed since."""
        given = {"dataset": dataset, "at": at}
        return self.tx.execute(GONE_BACK_SINCE, given).fetchone() is not None

    def pipeline_at(self, seq: int, owner: Owner) -> str | None:
        """Return the pipeline version that was active after a commit."""
        row = self.tx.execute(PIPELINE_AT, owner.key | {"seq": seq}).fetchone()
        return row["pipeline_version"] if row else None

    def as_of(self, seq: int, owner: Owner) -> dict[UUID, int]:
        """Return the version of each dataset of a project after a commit."""
        rows = self.tx.execute(AS_OF, owner.key | {"seq": seq}).fetchall()
        return {row["dataset_id"]: row["ordinal"] for row in rows}

    def while_current(self, dataset: Dataset, ordinal: int) -> dict[UUID, int]:
        """Return the version of each dataset of a project when this version of one was current
        last."""
        given = {"dataset": dataset.id, "ordinal": ordinal}
        row = self.tx.execute(WHILE_CURRENT, given).fetchone()
        assert row is not None
        return self.as_of(row["seq"], dataset.owner)

    def check_closed(self, dataset: Dataset, ordinal: int, change: Change) -> None:
        """Raise VersionNotWhole unless the version that was just added is what the change says."""
        given = {"dataset": dataset.id, "ordinal": ordinal}
        given |= {"whole": change.whole or not change.scopes}
        given |= {"scopes": [scope or "" for scope in change.scopes]}
        row = self.tx.execute(CLOSURE, given).fetchone()
        assert row is not None
        if row["stated"] != row["rows"] or row["purged"] or row["others"]:
            raise VersionNotWhole(f"{dataset.name} v{ordinal}", **row)

    def list(self, owner: Owner, dataset: UUID | None = None, limit: int = 20) -> list[Commit]:
        """List commits, newest first."""
        given = owner.key | {"dataset": dataset, "limit": limit}
        return self._whole(self.tx.execute(LIST, given).fetchall())


def _commit(row: Mapping[str, Any], moves: Sequence[Move]) -> Commit:
    found = dict(row)
    owner = Owner(found.pop("org"), found.pop("project"))
    return Commit(owner=owner, moves=tuple(moves), **found)


def _version(row: Mapping[str, Any]) -> Version:
    found = dict(row)
    files = tuple(DataFile(**file) for file in found.pop("metadata_files"))
    return Version(metadata_files=files, **found)
