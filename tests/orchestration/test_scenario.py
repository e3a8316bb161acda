"""The reference scenario of the asset DAG: lineage, memo, resume, backfill, through the command."""

from __future__ import annotations

import json
from collections.abc import Callable

import pyarrow.parquet as pq

from tests.world.home import statuses
from tests.world.numbers import PIPELINE, NumbersHome
from tests.world.scale import FULL

DAY, NEXT = "d:2025-01-01", "d:2025-01-02"
DAYS = 31 if FULL else 8
"""Of a backfill; each is work of its own for Spark."""


def value(home: NumbersHome, run: str, day: str = "2025-01-01") -> int:
    """Of `sum`, read as a stranger would from where the registry says it is."""
    [[place]] = home.sql(
        "SELECT m.location FROM materializations m JOIN runs r ON r.id = m.run_id "
        f"WHERE r.name = '{run}' AND m.asset_name = 'sum' AND m.partition = 'd:{day}'"
    )
    [row] = pq.read_table(home.path / place).to_pylist()
    return row["total"]


def hashes(home: NumbersHome, run: str) -> dict[str, str]:
    shown = home.ok("show", run)
    return {made["name"]: made["dependency_hash"] for made in shown["assets"]}


def test_what_ran_what_is_reused_and_what_runs_again(home: NumbersHome) -> None:
    # 1: three assets, one run
    first = home.ok("run", "+sum", "--partition", DAY)
    assert statuses(first) == {"numbers": "success", "doubled": "success", "sum": "success"}
    assert value(home, first["run_id"]) == 30
    rows = home.sql(
        "SELECT asset_name, partition, status, run_id, duration_ms >= 0, executor_node <> '', "
        "to_json(upstream_assets), "
        "cardinality(upstream_assets) = cardinality(upstream_partitions), "
        "completed_at >= started_at FROM flowstone_materializations ORDER BY asset_name"
    )
    assert [(r[0], r[1], r[2], r[4], r[5], json.loads(r[6]), r[7], r[8]) for r in rows] == [
        ("doubled", DAY, "success", "t", "t", ["numbers"], "t", "t"),
        ("numbers", DAY, "success", "t", "t", ["raw"], "t", "t"),
        ("sum", DAY, "success", "t", "t", ["doubled"], "t", "t"),
    ]
    assert {row[3] for row in rows} == {first["run_id"]}

    # 2: unchanged is skipped; --force runs the named asset; a changed record runs what it reaches
    second = home.ok("run", "+sum", "--partition", "2025-01-01")
    assert set(statuses(second).values()) == {"skipped"}
    assert second["run_id"] != first["run_id"]
    [hop] = home.ok("why", "sum", "day=2025-01-01", "--keys")["hops"]
    assert hop["run"] == first["run_id"]  # where the result was made, not where it was reused
    while hop["inputs"][0]["kind"] == "asset":
        [hop] = hop["inputs"][0]["hops"]
    assert hop["inputs"][0]["keys"] == list("12345")
    assert home.ok("verify", second["run_id"])["balanced"]
    forced = home.ok("run", "+sum", "--partition", DAY, "--force")
    assert statuses(forced) == {"numbers": "skipped", "doubled": "skipped", "sum": "success"}
    home.numbers("2025-01-01", 1, 2, 3, 4, 5, 6)
    changed = home.ok("run", "+sum", "--partition", DAY)
    assert set(statuses(changed).values()) == {"success"}
    assert value(home, changed["run_id"]) == 42
    before, after = hashes(home, first["run_id"]), hashes(home, changed["run_id"])
    assert all(before[name] != after[name] for name in ("numbers", "doubled", "sum"))

    # the same content from another run has the same hash
    home.numbers("2025-01-01", 1, 2, 3, 4, 5)
    back = home.ok("run", "+sum", "--partition", DAY)
    assert hashes(home, back["run_id"]) == before

    # what only looks different is the same; a changed step runs again, and what reads it only if
    # its content changed
    home.pipeline("# a word\n" + PIPELINE.replace('"n * 2"', '"n  *  2 -- twice"'))
    assert set(statuses(home.ok("run", "+sum", "--partition", DAY)).values()) == {"skipped"}
    home.pipeline(PIPELINE.replace('"n * 2"', '"n + n"'))
    edited = home.ok("run", "+sum", "--partition", DAY)
    assert statuses(edited) == {"numbers": "skipped", "doubled": "success", "sum": "skipped"}
    home.pipeline(PIPELINE)

    # 3: what cannot be done is told before anything runs
    count = len(home.ok("runs"))
    early = home.tallyman("run", "sum", "--partition", "2025-03-03")
    assert (early.code, early.json["error"]["code"]) == (4, "dependency_not_ready")
    misspelled = home.tallyman("run", "summ", "--partition", DAY)
    assert (misspelled.code, "Did you mean 'sum'?" in misspelled.json["error"]["message"]) == (
        2,
        True,
    )
    assert len(home.ok("runs")) == count


def test_lineage_knows_partitions_and_depth(home: NumbersHome) -> None:
    home.numbers("2025-01-02", 7)
    home.ok("backfill", "+sum", "--from", "2025-01-01", "--to", "2025-01-02", "--jobs", "2")

    def reached(*words: str) -> list[tuple[str, str, int, str | None]]:
        found = home.ok("lineage", *words)
        return [(r["asset"], r["partition"], r["depth"], r["status"]) for r in found]

    assert reached("impact", "numbers", "--partition", DAY) == [
        ("doubled", DAY, 1, "success"),
        ("sum", DAY, 2, "success"),
    ]
    everywhere = reached("impact", "numbers", "--partition", DAY, "--granularity", "asset")
    assert [(asset, partition) for asset, partition, _, _ in everywhere] == [
        ("doubled", DAY),
        ("doubled", NEXT),
        ("sum", DAY),
        ("sum", NEXT),
    ]
    assert reached("up", "sum", "--partition", DAY) == [
        ("doubled", DAY, 1, "success"),
        ("numbers", DAY, 2, "success"),
        ("raw", DAY, 3, None),
    ]
    unknown = home.tallyman("lineage", "up", "summ")
    assert (unknown.code, unknown.json["error"]["code"]) == (2, "not_found")


def test_a_failed_run_resumes_with_what_is_left(home: NumbersHome) -> None:
    home.pipeline(PIPELINE.replace('"n * 2"', '"n / (n - 3)"'))
    failed = home.tallyman("run", "+sum", "--partition", DAY, "--run-id", "r5")
    assert failed.code == 1
    assert home.states("r5") == {
        "numbers": ("success", 1),
        "doubled": ("failed", 1),
        "sum": ("pending", 0),
    }
    [edges] = home.sql("SELECT count(*) FROM lineage_edges WHERE asset_name = 'doubled'")
    assert edges == ["0"]
    again = home.tallyman("resume", "r5")  # nothing was mended: it fails again, and says so
    assert (again.code, home.states("r5")["doubled"]) == (1, ("failed", 2))

    home.pipeline(PIPELINE)
    resumed = home.ok("resume", "r5")
    assert resumed["run_id"] == "r5"
    assert home.states("r5") == {
        "numbers": ("success", 1),
        "doubled": ("success", 3),
        "sum": ("success", 1),
    }
    assert value(home, "r5") == 30
    assert home.ok("resume", "r5")["status"] == "success"  # nothing left: nothing done
    kept = sorted(p.name for p in (home.path / resumed["folder"] / "attempts").glob("*/doubled/*"))
    assert kept, "what the failed attempts wrote is kept aside"
    assert home.ok("verify", "r5")["balanced"]


def test_a_backfill_skips_what_is_done(home: NumbersHome) -> None:
    for day in range(1, DAYS + 1):
        home.numbers(f"2025-01-{day:02d}", day, 100 + day)
    home.ok("run", "numbers", "--partition", "2025-01-07")
    to = ("--from", "2025-01-01", "--to", f"2025-01-{DAYS:02d}")
    words = ("backfill", "numbers", *to, "--jobs", "4")
    filled = home.ok(*words)
    counts = {name: filled[name] for name in ("succeeded", "failed", "skipped")}
    assert counts == {"succeeded": DAYS - 1, "failed": 0, "skipped": 1}
    again = home.ok(*words)
    assert {name: again[name] for name in counts} == {"succeeded": 0, "failed": 0, "skipped": DAYS}


def test_a_backfill_goes_on_or_halts_where_a_partition_fails(home: NumbersHome) -> None:
    home.numbers("2025-01-02", 3).numbers("2025-01-03", 4)
    home.pipeline(
        PIPELINE.replace("    return raw\n", '    return raw.withColumn("x", "1 / (n - 3)")\n')
    )
    (home.path / "data" / "2025-01-01" / "raw.jsonl").unlink()
    home.numbers("2025-01-01", 5)
    words = ("backfill", "numbers", "--from", "2025-01-01", "--to", "2025-01-03")
    going = home.tallyman(*words)
    assert (going.code, going.json["succeeded"], going.json["failed"]) == (1, 2, 1)
    halted = home.tallyman(*words, "--force", "--on-error", "halt")
    counts = {name: halted.json[name] for name in ("succeeded", "failed", "skipped", "not_run")}
    assert counts == {"succeeded": 1, "failed": 1, "skipped": 0, "not_run": 1}


def test_a_cycle_is_refused_with_its_path(new_home: Callable[[], NumbersHome]) -> None:
    home = new_home().pipeline(
        "import tallyman as tm\n@tm.asset()\ndef a(b):\n    return b\n"
        "@tm.asset()\ndef b(a):\n    return a\n"
    )
    refused = home.tallyman("ls")
    assert refused.code == 2
    message = refused.json["error"]["message"]
    assert "cycle: a → b → a" in message or "cycle: b → a → b" in message


def test_the_graph_draws_what_reads_what(home: NumbersHome) -> None:
    drawn = home.ok("graph")
    edges = {(edge["from"], edge["to"]) for edge in drawn["edges"]}
    assert edges == {("raw", "numbers"), ("numbers", "doubled"), ("doubled", "sum")}
    text = home.printed("graph", "--mermaid").stdout
    assert text.startswith("graph LR")
    assert text.count("-->") == 3
