"""What recording every change costs next to the same run without: ratios within one process.

    .venv/bin/python benchmarks/trace.py --records 2000000 --repeats 3

Two assets with the same five row-local steps on the same rows, one with trace="off", one with
trace="changes"; interleaved. About one trace record per row.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tallyman as tm

SCHEMA = (
    "entry string, account string, center string, currency string, region string, "
    "amount decimal(18,2), reporting decimal(18,2), booked_on date, kind string, note string"
)
PIPELINE = f'''
import tallyman as tm

entries = tm.source("entries", path="data/entries", format="parquet", key="entry",
                    schema="{SCHEMA}")
rates = tm.source("rates", path="data/rates", format="parquet", key="code")

def close(entries, rates):
    return (entries
        .update({{"reporting": "amount * fx.rate"}}, where="currency <> 'USD'",
                join={{"fx": (rates, "currency = code")}})
        .update({{"amount": "amount * 1.05"}}, where="region = 'EMEA'")
        .update({{"note": "concat(account, '/', center)", "kind": "'review'"}},
                where="amount > 800")
        .delete("kind = 'EXPENSE' AND amount < 100")
        .update({{"center": "'CC-000'"}}, where="account < '1010'"))

@tm.asset(trace="off", key="entry")
def off(entries, rates):
    return close(entries, rates)

@tm.asset(trace="changes", key="entry")
def changes(entries, rates):
    return close(entries, rates)
'''


def make_data(spark: SparkSession, folder: Path, records: int) -> None:
    """10 columns; half of the rows in another currency, a quarter in EMEA."""
    rates = [("USD", 1.0), ("EUR", 1.092), ("GBP", 1.271), ("JPY", 0.00672)]
    named = spark.createDataFrame(rates, "code string, r double")
    named.selectExpr("code", "CAST(r AS decimal(12,6)) AS rate").coalesce(1).write.parquet(
        str(folder / "rates")
    )
    one = F.rand
    rows = spark.range(0, records, 1, 8).select(
        F.format_string("JE%010d", F.col("id")).alias("entry"),
        F.format_string("1%03d", (one(1) * 300).cast("int")).alias("account"),
        F.format_string("CC-%03d", (one(2) * 200).cast("int")).alias("center"),
        F.when(one(3) < 0.5, "USD")
        .when(one(4) < 0.6, "EUR")
        .when(one(5) < 0.7, "GBP")
        .otherwise("JPY")
        .alias("currency"),
        F.when(one(6) < 0.25, "EMEA").otherwise("AMER").alias("region"),
        F.round(one(7) * 1000, 2).cast("decimal(18,2)").alias("amount"),
        F.lit(None).cast("decimal(18,2)").alias("reporting"),
        F.date_add(F.lit("2026-01-01").cast("date"), (one(8) * 31).cast("int")).alias("booked_on"),
        F.when(one(9) < 0.3, "EXPENSE").otherwise("ERP").alias("kind"),
        F.substring(F.sha2(F.col("id").cast("string"), 256), 1, 12).alias("note"),
    )
    rows.write.parquet(str(folder / "entries"))


def trace_facts(project: tm.Project, run_id: str, folder: Path) -> dict[str, object]:
    """Count records and bytes. A change takes its marks, its values before and its share of the row
    id; the row itself, which baselines are read from, is counted separately.
    """
    with project.trace(run_id) as trace:
        steps = trace.steps("changes")
    counts = {
        kind: sum(getattr(step, kind) for step in steps)
        for kind in ("updated", "deleted", "baselines")
    }
    sizes = {"changes": 0, "rows": 0}
    for file in (folder / "trace").rglob("*.parquet"):
        found = pq.read_metadata(file)
        for group in map(found.row_group, range(found.num_row_groups)):
            for column in map(group.column, range(group.num_columns)):
                kind = "changes" if column.path_in_schema.startswith("_tm.") else "rows"
                sizes[kind] += column.total_compressed_size
    changed = counts["updated"] + counts["deleted"]
    files = sum(f.stat().st_size for f in (folder / "trace").rglob("*") if f.is_file())
    return {
        "changes": counts,
        "bytes": {**sizes, "files": files},
        "bytes_per_change": round(sizes["changes"] / changed, 2),
        "bytes_per_change_with_rows": round(files / changed, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="folder for the data, reused when it is there")
    given = parser.parse_args()
    home = given.keep or Path(tempfile.mkdtemp(prefix="tallyman-bench-"))
    (home / "pipelines").mkdir(parents=True, exist_ok=True)
    (home / "tallyman.yaml").write_text("name: bench_trace\n")
    (home / "pipelines" / "bench.py").write_text(PIPELINE)
    project = tm.Project.open(home)
    if not (home / "data" / "entries" / "_SUCCESS").exists():
        make_data(project.spark, home / "data", given.records)
    times: dict[str, list[float]] = {"off": [], "changes": []}
    processor: dict[str, list[float]] = {"off": [], "changes": []}
    facts: dict[str, object] = {}
    for round_ in range(given.repeats + 1):
        for name, taken in times.items():
            started, used = time.perf_counter(), processor_seconds()
            result = project.run(name, force=True)
            assert result.exit_code == 0, result.to_json()
            if round_:  # the first round warms up
                taken.append(time.perf_counter() - started)
                processor[name].append(processor_seconds() - used)
            place = home / result.folder / name
            if name == "changes":
                facts = trace_facts(project, result.run_id, place)
            shutil.rmtree(home / "runs")
    report(given, times, processor, facts)
    if not given.keep:
        shutil.rmtree(home)


def processor_seconds() -> float:
    """Of this process and its JVM: what other work on the machine does not change much."""
    own = psutil.Process()
    spent = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return float(sum(t.user + t.system for t in spent))


def report(
    given: argparse.Namespace,
    times: dict[str, list[float]],
    processor: dict[str, list[float]],
    facts: dict[str, object],
) -> None:
    seconds = {name: statistics.median(taken) for name, taken in times.items()}
    worked = {name: statistics.median(taken) for name, taken in processor.items()}
    ratio = seconds["changes"] / seconds["off"]
    print(f"\n{given.records:,} rows, five row-local steps, median of {given.repeats}, interleaved")
    print(
        f"untraced {seconds['off']:.2f} s   traced {seconds['changes']:.2f} s   ratio {ratio:.2f}"
    )
    print(
        f"processor seconds: untraced {worked['off']:.2f}   traced {worked['changes']:.2f}   "
        f"ratio {worked['changes'] / worked['off']:.2f}"
    )
    print(json.dumps(facts))
    written = {
        "benchmark": "trace",
        "records": given.records,
        "repeats": given.repeats,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": {"cores": 2, "python": platform.python_version()},
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "ratio": round(ratio, 2),
        "processor_seconds": {name: round(value, 3) for name, value in worked.items()},
        "processor_ratio": round(worked["changes"] / worked["off"], 2),
        "all_seconds": {name: [round(s, 3) for s in taken] for name, taken in times.items()},
        **facts,
    }
    place = Path(__file__).parent / "results" / f"trace-{given.records}.json"
    place.write_text(json.dumps(written, indent=2) + "\n")


if __name__ == "__main__":
    main()
