"""A run to tell of: its manifest, and the airline's target with a real ledger and real files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import (
    ArrayType,
    DateType,
    DecimalType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from tallyman.control.openlineage.asset import code_of_asset
from tallyman.control.openlineage.datasets import of_source
from tallyman.control.openlineage.events import LineageAsset, LineageRun
from tallyman.domain.account.fate import Fate
from tallyman.domain.account.ledger import InputAccount, KeyDigest, Ledger, Partition
from tallyman.domain.account.stored_ledger import StoredLedger
from tallyman.domain.history.manifest import Manifest
from tallyman.domain.history.run import AssetResult, Status
from tallyman.engine.warehouse.footers import extents, sizes
from tests.lineage_events.plans import AIRLINE, airline, columns_of

STARTED = datetime(2024, 3, 1, 6, 30, 0, 123, tzinfo=UTC)
RUN = "0c6a1d1e-5a35-4d0a-9d3e-1f4c7a2b9e10"
HASH = f"sha256:{'ab' * 32}"
FOLDER = "runs/0301_063000_0c6a1d1e"
OUTPUT = StructType(
    [
        StructField("flight_date", DateType()),
        StructField("total_revenue", DecimalType(20, 2)),
        StructField("segments", LongType()),
    ]
)
NESTED = StructType(
    [
        StructField("id", LongType()),
        StructField("tags", ArrayType(StructType([StructField("tag", StringType())]))),
        StructField("prices", MapType(StringType(), DecimalType(10, 2))),
        StructField("who", StructType([StructField("name", StringType())])),
    ]
)


def manifest(**more: Any) -> dict[str, Any]:
    return {
        "manifest_version": "2.0",
        "run_id": RUN,
        "project": "airline",
        "actor": "ann",
        "pipeline_version": None,
        "timestamp": "2024-03-01T06:30:00Z",
        "folder_name": "0301_063000_0c6a1d1e",
        "cryptographic_binding": {
            "config_hash": HASH,
            "code_version": {
                "git_commit": "35eefcf",
                "git_branch": "main",
                "git_dirty": False,
                "source_hash": HASH,
            },
            "input_hashes": {
                "segments": {"kind": "source", "path": "data/bookings", "hash": HASH},
                "airlines": {"kind": "source", "path": "data/reference/airlines.csv", "hash": None},
            },
        },
        "targets": [],
        "processing_window": {"start": None, "end": None, "partitions": 0},
        "execution_metadata": {"spark_version": "4.3.0", "python_version": "3.11.9"},
        "output_locations": {"run_dir": FOLDER},
        "openlineage_run_id": RUN,
        **more,
    }


def lineage_run(**more: Any) -> LineageRun:
    return LineageRun(manifest=Manifest.of_json(manifest(**more)))


def clock() -> Iterator[datetime]:
    at = STARTED
    while True:
        yield at
        at += timedelta(microseconds=1)


def partition(fate: Fate, count: int, place: str) -> Partition:
    return Partition(
        fate=fate, description=fate.value, digest=KeyDigest(count, count, count), location=place
    )


def ledger(*, lost: int = 0) -> Ledger:
    """The scenario of the specification; `lost` records are in no partition."""
    door = InputAccount(
        dataset="data/bookings",
        key_field="segment_id",
        content_hash=HASH,
        digest=KeyDigest(*[349_660 + lost] * 3),
    )
    return Ledger(
        run_id=RUN,
        asset="daily_revenue",
        inputs=(door,),
        partitions=(
            partition(
                Fate.AGGREGATED, 345_000, "adjoint/reverse_joins/daily_revenue_aggregation.parquet"
            ),
            partition(Fate.FILTERED, 4_000, "adjoint/filtered_keys/flown_status_filter.parquet"),
            partition(Fate.ERROR, 660, "errors/"),
        ),
    )


SUMMARY = [
    {
        "error_type": kind,
        "morphism_path": path,
        "count": count,
        "sample_error_code": "X",
        "sample_actual_value": "THE VALUE OF A ROW",
    }
    for kind, path, count in (
        ("refinement_error", "daily_revenue.positive_price", 198),
        ("join_error", "daily_revenue.known_airline", 132),
        ("parse_error", "segments._", 132),
        ("type_cast_error", "segments.ticket_price", 132),
        ("null_error", "segments.flight_date", 132),
    )
]


def result(status: Status = Status.SUCCESS, **more: Any) -> AssetResult:
    known: dict[str, Any] = {
        "attempt": 1,
        "records_in": 349_660,
        "fates": ledger().fates,
        "rows_out": 32,
        "rejections": 726,
    }
    return AssetResult(name="daily_revenue", status=status, **(known | more))


def written(folder: Path, revenue: list[int | None], *, name: str = "part-0") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = str(folder / f"{name}.parquet")
    table = pa.table(
        {
            "flight_date": pa.array([f"2024-01-{n + 1:02d}" for n, _ in enumerate(revenue)]),
            "total_revenue": pa.array(
                [None if each is None else Decimal(each) for each in revenue], pa.decimal128(20, 2)
            ),
            "segments": pa.array(range(len(revenue)), pa.int64()),
            "_tm": pa.array([None] * len(revenue), pa.string()),
        }
    )
    pq.write_table(table, path)
    return path


def lineage_asset(home: Path, **more: Any) -> LineageAsset:
    """Done, with everything that is known then."""
    pipeline, run = airline(), lineage_run()
    asset = pipeline.assets["daily_revenue"]
    schemas = {
        name: StructType([StructField(column, StringType()) for column in listed])
        for name, listed in columns_of(pipeline).items()
    }
    csv = home / "airlines.csv"
    csv.write_text("code,name\nAB,Somebody\n")
    inputs = [
        of_source(pipeline.sources["segments"], home, schemas["segments"]),
        replace(
            of_source(pipeline.sources["airlines"], home, schemas["airlines"]),
            extent=sizes([str(csv)]),
        ),
    ]
    files = [written(home / "out", [100, 250]), written(home / "out", [None, 7], name="part-1")]
    output = run.dataset(
        "daily_revenue",
        asset.dataset,
        schema=OUTPUT,
        version=7,
        location=str(home / "warehouse" / "x"),
        extent=extents(files),
    )
    known: dict[str, Any] = {
        "result": result(),
        "folder": f"{FOLDER}/daily_revenue",
        "inputs": inputs,
        "output": output,
        "plan": asset.plan(),
        "code": code_of_asset(asset, AIRLINE),
        "ledger": StoredLedger.of(ledger()),
        "rejections": SUMMARY,
    }
    return LineageAsset(**(known | more))
