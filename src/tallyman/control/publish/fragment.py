"""Describe a fragment: its schema and its Iceberg manifest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tallyman import faults
from tallyman.domain.version.dataset import Dataset, Fragment
from tallyman.engine.warehouse.warehouse import Warehouse
from tallyman.faults import Point
from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    from tallyman.engine.warehouse import iceberg
else:
    # PyIceberg takes most of a second, and most commands publish nothing.
    iceberg = OnDemand("tallyman.engine.warehouse.iceberg")


def described(warehouse: Warehouse, dataset: Dataset, fragment: Fragment) -> Fragment:
    """Add schema and Iceberg manifest, so that any version can use the fragment."""
    folder = warehouse.dataset(dataset.id)
    first, by = folder / fragment.files[0].path, dataset.partition_column
    whole = replace(fragment, schema=iceberg.schema_of(first, dataset.name, by))
    iceberg_manifest = iceberg.add_iceberg_manifest(folder, whole)
    faults.reach(Point.FRAGMENT_DESCRIBED)
    return replace(whole, iceberg_manifest=iceberg_manifest)
