"""The overview of an organisation: its datasets, where they are, and what reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallyman.domain.version.owner import Owner
from tallyman.registry.database import Transaction

# What another pipeline hides, or has not published yet, looks as if it did not exist.
DATASETS = """
    SELECT d.id, d.name AS dataset, d.kind, d.project AS pipeline, d.producer, d.published,
           CASE WHEN d.current_version IS NULL THEN NULL ELSE d.ordinal END AS version,
           v.row_count AS rows, p.warehouse, p.home
    FROM datasets d
    LEFT JOIN versions v ON v.id = d.current_version
    LEFT JOIN pipelines p ON p.org = d.org AND p.project = d.project
    WHERE d.org = %(org)s
      AND (d.project = %(project)s OR (d.published AND d.current_version IS NOT NULL))
    ORDER BY d.project COLLATE "C", d.name COLLATE "C"
"""
ACTIVE = """
    SELECT p.project, v.definition FROM pipelines p
    JOIN pipeline_versions v
      ON v.org = p.org AND v.project = p.project AND v.hash = p.active_version
    WHERE p.org = %(org)s
"""


def overview(tx: Transaction, owner: Owner) -> list[dict[str, Any]]:
    """List the datasets that the pipeline may read, with what the active pipelines make of each."""
    readers = _readers(tx, owner)
    found = tx.execute(DATASETS, owner.key).fetchall()
    for row in found:
        own = readers.get((row["pipeline"], row["producer"]), [])
        shared = readers.get((None, row["dataset"]), [])
        row["consumers"] = sorted({*own, *shared})
    return found


def _readers(tx: Transaction, owner: Owner) -> dict[tuple[str | None, str], list[str]]:
    """Map what is read to its readers: (pipeline, asset or table) for what a pipeline makes itself,
    (None, dataset) for what another one publishes."""
    found: dict[tuple[str | None, str], list[str]] = {}
    for row in tx.execute(ACTIVE, owner.key).fetchall():
        definition: Mapping[str, Any] = row["definition"]
        shared = definition.get("datasets", {})
        for asset, described in definition.get("assets", {}).items():
            for name in described["inputs"]:
                read = (None, shared[name]) if name in shared else (row["project"], name)
                found.setdefault(read, []).append(f"{row['project']}.{asset}")
    return found
