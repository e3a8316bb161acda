"""Versions as open tables: Apache Iceberg metadata over Parquet files that already exist.

Every fragment has one Iceberg manifest, written once next to its files. A version is a list of
these manifests, so replacing, adding and removing fragments never touches another fragment's
metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyarrow import parquet as pq
from pyiceberg.exceptions import ValidationError
from pyiceberg.io.pyarrow import (
    PyArrowFileIO,
    UnsupportedPyArrowTypeException,
    _pyarrow_to_schema_without_ids,
    parquet_files_to_data_files,
)
from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate, update_table_metadata
from pyiceberg.transforms import IdentityTransform

from tallyman.domain.version.dataset import Fragment
from tallyman.engine.expressions.column_names import SYSTEM
from tallyman.engine.files.durable import sync
from tallyman.engine.files.listing import fresh_sha256
from tallyman.errors import UnpublishableType

CODEC = "deflate"
ICEBERG_MANIFEST = "manifest.avro"
REQUIRED = ("required", "element-required", "value-required")
PARTITIONED_BY = "partitioned-by"
# The statistics of each column of a file; columns hidden from readers are left out.
STATISTICS = (
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
)


def schema_of(file: Path, dataset: str, by: str | None) -> dict[str, Any]:
    """Read the columns of a Parquet file as Iceberg names and numbers them, and add the partition
    column. All fragments of a version have this in common.
    """
    arrow = pq.read_schema(file).remove_metadata()
    seen = pa.schema([field for field in arrow if field.name != SYSTEM])
    found = json.loads(_schema(seen, dataset).model_dump_json(), object_hook=_optional)
    return dict(found) | {PARTITIONED_BY: by}


def _optional(description: dict[str, Any]) -> dict[str, Any]:
    """Mark every column as optional. Whether Spark knows that a column has no NULL depends on how
    it was computed, so two fragments of one dataset may differ in it; no reader needs it.
    """
    return description | {name: False for name in REQUIRED if name in description}


def _schema(arrow: pa.Schema, dataset: str) -> Schema:
    try:
        return assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(arrow))
    except (UnsupportedPyArrowTypeException, ValidationError, TypeError) as error:
        raise UnpublishableType(dataset, str(error)) from error


def add_iceberg_manifest(folder: Path, fragment: Fragment) -> dict[str, Any] | None:
    """Write the Iceberg manifest into the fragment's folder; None if there are no rows. `folder` is
    the folder of the dataset.
    """
    paths = [_uri(folder / file.path) for file in fragment.files if file.rows]
    if not paths:
        return None
    io, snapshot = PyArrowFileIO(), snapshot_id(fragment.id)
    table = _table(folder, fragment.dataset_id, fragment.schema)
    place = folder / "version" / str(fragment.id) / ICEBERG_MANIFEST
    output = io.new_output(_uri(place))
    writer = write_manifest(2, table.spec(), table.schema(), output, snapshot, CODEC)
    with writer:
        for file in _data_files(io, table, paths):
            entry = ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED, snapshot_id=snapshot, data_file=file
            )
            writer.add_entry(entry)
    written = writer.to_manifest_file()
    sync(place)
    hidden = _hidden(folder / fragment.files[0].path)
    return {
        "path": str(place.relative_to(folder)),
        "length": written.manifest_length,
        "sha256": fresh_sha256(str(place)),
        "files": written.added_files_count,
        "rows": written.added_rows_count,
        "partitions": [
            [s.contains_null, s.contains_nan, _hex(s.lower_bound), _hex(s.upper_bound)]
            for s in written.partitions or ()
        ],
        "hidden": _names(hidden.name_mapping.root) if hidden else {},
    }


def _hidden(file: Path, first: int = 1) -> Schema | None:
    """Return our own column of a file, hidden from readers, numbered from `first`."""
    arrow = pq.read_schema(file).remove_metadata()
    own = pa.schema([field for field in arrow if field.name == SYSTEM])
    if not own.names:
        return None
    numbers = count(first)
    return assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(own), lambda: next(numbers))


def _names(fields: Sequence[MappedField]) -> dict[str, Any]:
    """Convert a name mapping to a tree of names, without numbers."""
    return {field.names[0]: _names(field.fields) for field in fields}


def _data_files(io: PyArrowFileIO, table: TableMetadata, paths: Sequence[str]) -> list[DataFile]:
    """Describe the data files, with statistics of the columns that readers see."""
    schema = table.schema()
    unseen = _hidden(Path(paths[0].removeprefix("file://")), schema.highest_field_id + 1)
    if unseen is None:
        return list(parquet_files_to_data_files(io, table, iter(paths)))
    # PyIceberg refuses a file with more columns than the table, so it is shown all of them.
    wider = Schema(*schema.fields, *unseen.fields, schema_id=schema.schema_id)
    found = list(
        parquet_files_to_data_files(io, table.model_copy(update={"schemas": [wider]}), iter(paths))
    )
    for file in found:
        for name in STATISTICS:
            listed = getattr(file, name)
            for number in [n for n in listed or () if n > schema.highest_field_id]:
                del listed[number]
    return found


def write_version(folder: Path, version: UUID, ordinal: int, fragments: Sequence[Fragment]) -> str:
    """Write the metadata of one version and return its address. The file holds only this version,
    so that removing another one breaks nothing.
    """
    io, snapshot = PyArrowFileIO(), snapshot_id(version)
    metadata = folder / "metadata"
    metadata.mkdir(exist_ok=True)
    listed = metadata / f"{version}.manifests.avro"
    writer = write_manifest_list(2, io.new_output(_uri(listed)), snapshot, None, ordinal, CODEC)
    with writer:
        writer.add_manifests([_listed(folder, f, ordinal) for f in fragments if f.iceberg_manifest])
    hidden = [f.iceberg_manifest["hidden"] for f in fragments if f.iceberg_manifest]
    table = _table(folder, fragments[0].dataset_id, fragments[0].schema, hidden)
    summary = Summary(
        Operation.OVERWRITE,
        **{
            "total-records": str(sum(f.rows for f in fragments)),
            "total-data-files": str(sum(len(f.files) for f in fragments)),
            "total-files-size": str(sum(f.bytes for f in fragments)),
            "tallyman.version": str(ordinal),
            "tallyman.version-id": str(version),
        },
    )
    made = Snapshot(
        snapshot_id=snapshot,
        sequence_number=ordinal,
        manifest_list=_uri(listed),
        summary=summary,
        schema_id=table.current_schema_id,
    )
    current = SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=snapshot)
    table = update_table_metadata(table, (AddSnapshotUpdate(snapshot=made), current))
    place = metadata / f"{version}.metadata.json"
    ToOutputFile.table_metadata(table, io.new_output(_uri(place)))
    sync(listed, place, metadata)
    return _uri(place)


def _listed(folder: Path, fragment: Fragment, ordinal: int) -> ManifestFile:
    """List a fragment under the number of the version it entered with."""
    found = fragment.iceberg_manifest
    assert found is not None
    since = fragment.since or ordinal
    bounds = [
        PartitionFieldSummary(null, nan, _bytes(lower), _bytes(upper))
        for null, nan, lower, upper in found["partitions"]
    ]
    return ManifestFile.from_args(
        manifest_path=_uri(folder / found["path"]),
        manifest_length=found["length"],
        partition_spec_id=0,
        content=ManifestContent.DATA,
        sequence_number=since,
        min_sequence_number=since,
        added_snapshot_id=snapshot_id(fragment.id),
        added_files_count=found["files"],
        existing_files_count=0,
        deleted_files_count=0,
        added_rows_count=found["rows"],
        existing_rows_count=0,
        deleted_rows_count=0,
        partitions=bounds or None,
        key_metadata=None,
    )


def _table(
    folder: Path,
    dataset: UUID,
    schema: Mapping[str, Any],
    hidden: Sequence[Mapping[str, Any]] = (),
) -> TableMetadata:
    columns = Schema.model_validate({k: v for k, v in schema.items() if k != PARTITIONED_BY})
    fields: list[PartitionField] = []
    by = schema.get(PARTITIONED_BY)
    if by is not None:
        source = columns.find_field(by).field_id
        name = f"{by}_partition"
        fields.append(PartitionField(source, PARTITION_FIELD_ID_START, IdentityTransform(), name))
    return new_table_metadata(
        columns,
        PartitionSpec(*fields),
        UNSORTED_SORT_ORDER,
        _uri(folder),
        {"schema.name-mapping.default": _name_mapping(columns, hidden)},
        dataset,
    )


def _name_mapping(columns: Schema, hidden: Sequence[Mapping[str, Any]]) -> str:
    """Map names to numbers, because files have no field numbers and readers find columns by name.
    PyIceberg requires every column of a file here, also those that are not in the table.
    """
    tree: dict[str, Any] = {}
    for names in hidden:
        _merge(tree, names)
    numbers = count(columns.highest_field_id + 1)
    unseen = _mapped(tree, numbers)
    return NameMapping([*columns.name_mapping.root, *unseen]).model_dump_json()


def _merge(tree: dict[str, Any], other: Mapping[str, Any]) -> None:
    for name, below in other.items():
        _merge(tree.setdefault(name, {}), below)


def _mapped(tree: Mapping[str, Any], numbers: Iterator[int]) -> list[MappedField]:
    return [
        MappedField(**{"field-id": next(numbers), "names": [name]}, fields=_mapped(below, numbers))
        for name, below in tree.items()
    ]


def snapshot_id(made: UUID) -> int:
    return made.int >> 65


def _uri(path: Path) -> str:
    """Write a path as an address. Readers split an address at these characters and do not decode
    it, so a path that contains one is written bare.
    """
    return str(path) if set("#?%;") & set(str(path)) else f"file://{path}"


def _hex(bound: bytes | None) -> str | None:
    return None if bound is None else bound.hex()


def _bytes(bound: str | None) -> bytes | None:
    return None if bound is None else bytes.fromhex(bound)
