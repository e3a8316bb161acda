"""A run that kept only digests still answers for its keys, by a replay whose digests must agree."""

from collections.abc import Callable
from pathlib import Path

from tests.world.homes import INTERPRETED
from tests.world.reply import Reply


def test_a_run_with_digests_names_the_records_behind_a_row(
    tmp_path: Path, tallyman, empty_database: Callable[[], str]
) -> None:
    assert tallyman(tmp_path, "init", "sales").code == 0
    project = tmp_path / "sales"
    with (project / "tallyman.yaml").open("a") as settings:
        settings.write(f"\ndatabase: {empty_database()}\n{INTERPRETED}")
    run: Reply = tallyman(project, "run", "--evidence", "digest")
    assert run.code == 0, str(run)

    # Sixty orders: day 1 has the multiples of 5, of which o-35 is from abroad.
    behind = tallyman(project, "why", "daily_sales", "day=2026-01-01", "--keys")
    expected = sorted(f"o-{n}" for n in range(5, 61, 5) if n % 7)
    [hop] = behind.json["hops"]
    assert (hop["records"], hop["replayed"]) == (11, True), str(behind)
    assert hop["inputs"][0]["keys"] == expected

    # Another record in the place of one that was aggregated: same count, another digest.
    orders = project / "data" / "orders.jsonl"
    orders.write_text(orders.read_text().replace('"o-10"', '"o-99"'))
    refused = tallyman(project, "why", "daily_sales", "day=2026-01-01")
    assert (refused.code, refused.json["error"]["code"]) == (1, "replay_differs"), str(refused)
    assert "the files of orders changed since" in refused.json["error"]["message"]
    verdict = tallyman(project, "verify", "latest", "--exact")
    assert verdict.code == 1
    assert not verdict.json["balanced"]
