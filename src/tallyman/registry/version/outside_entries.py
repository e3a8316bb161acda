"""Outside entries: what outside readers find under each name, compared with the versions.

A publication writes both in one transaction, so one statement always sees them agree. If they
differ, somebody else has written to Iceberg's table of names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from tallyman.domain.version.outside_entry import OutsideEntry
from tallyman.domain.version.owner import DEFAULT_ORGANISATION
from tallyman.registry.database import Transaction

CATALOG = "tallyman"
"""The catalog of the default organisation; that of another one has its name at the end."""
NAMESPACE = "published"

ADD_NAMESPACE = """
    INSERT INTO iceberg_namespace_properties
    VALUES (%(catalog)s, %(namespace)s, 'exists', 'true') ON CONFLICT DO NOTHING
"""

PUT = """
    INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location,
                                iceberg_type)
    VALUES (%(catalog)s, %(namespace)s, %(name)s, %(location)s, 'TABLE')
    ON CONFLICT (catalog_name, table_namespace, table_name) DO UPDATE
    SET previous_metadata_location = iceberg_tables.metadata_location,
        metadata_location = excluded.metadata_location, iceberg_type = excluded.iceberg_type
"""
REMOVE = """
    DELETE FROM iceberg_tables
    WHERE catalog_name = %(catalog)s AND table_namespace = %(namespace)s AND table_name = %(name)s
"""
DIFFERING = """
    WITH expected AS (
        SELECT d.id AS dataset, d.name, v.metadata_location AS location
        FROM datasets d
        LEFT JOIN versions v ON v.id = d.current_version AND d.published
        WHERE d.org = %(org)s
        UNION ALL
        SELECT s.dataset_id, s.alias, v.metadata_location
        FROM snapshots s
        JOIN versions v ON v.dataset_id = s.dataset_id AND v.ordinal = s.ordinal
        WHERE s.org = %(org)s
    ), found AS (
        SELECT table_name AS name, coalesce(metadata_location, '') AS location
        FROM iceberg_tables
        WHERE catalog_name = %(catalog)s AND table_namespace = %(namespace)s
          AND coalesce(iceberg_type, 'TABLE') = 'TABLE'   -- a view is not what was published
    )
    SELECT name, e.dataset, e.location AS expected, f.location AS found
    FROM expected e FULL JOIN found f USING (name)
    WHERE e.location IS DISTINCT FROM f.location
      AND (%(datasets)s::uuid[] IS NULL OR e.dataset = ANY(%(datasets)s))
    ORDER BY name
"""


class OutsideEntries:
    def __init__(self, tx: Transaction, org: str) -> None:
        self.tx = tx
        self._fixed = {"org": org, "catalog": catalog_of(org), "namespace": NAMESPACE}

    def put(self, names: Mapping[str, str | None]) -> None:
        """Set the metadata location that outside readers find under each name; None removes the
        name."""
        shown = [self._fixed | {"name": n, "location": at} for n, at in names.items() if at]
        hidden = [self._fixed | {"name": n} for n, at in names.items() if not at]
        with self.tx.cursor() as cursor:
            if shown:
                cursor.execute(ADD_NAMESPACE, self._fixed)
                cursor.executemany(PUT, shown)
            if hidden:
                cursor.executemany(REMOVE, hidden)

    def differing(self, datasets: Iterable[UUID] | None = None) -> list[OutsideEntry]:
        """List the entries that are not those of the current versions and snapshots: of these
        datasets, or of all, and then also those that belong to no dataset."""
        only = None if datasets is None else list(datasets)
        rows = self.tx.execute(DIFFERING, self._fixed | {"datasets": only}).fetchall()
        return [OutsideEntry(**row) for row in rows]


def catalog_of(org: str) -> str:
    """Name the catalog of an organisation: two organisations may publish the same name."""
    return CATALOG if org == DEFAULT_ORGANISATION else f"{CATALOG}_{org}"
