"""Two runs side by side: what is the same is said, what differs is named with both values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.report.conftest import ReportHome, edit


def sections(shop: ReportHome, a: str, b: str) -> tuple[int, dict[str, Any]]:
    reply = shop.tallyman("compare", a, b)
    return reply.code, {one["section"]: one for one in reply.json["sections"]}


def differences(section: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {one["path"]: (one["a"], one["b"]) for one in section["differences"]}


def test_a_run_that_used_everything_again_is_the_same(shop: ReportHome) -> None:
    code, found = sections(shop, "first", "again")
    assert code == 0
    states = {name: one["state"] for name, one in found.items() if not one["informative"]}
    assert states == dict.fromkeys(("config", "code", "environment", "inputs", "ledgers"), "same")
    code, text, _ = shop.printed("compare", "first", "again")
    assert code == 0
    assert "inputs: same" in text


def test_every_kind_of_difference_is_named_with_both_values(shop: ReportHome) -> None:
    code, found = sections(shop, "first", "changed")
    assert code == 1
    config, code_ = differences(found["config"]), differences(found["code"])
    assert config["assets.good.thresholds.absolute"] == (100, 7)
    manifests = [shop.read(name, "manifest.json") for name in ("first", "changed")]
    hashes = [{t["asset"]: t["definition_hash"] for t in m["targets"]} for m in manifests]
    assert code_["definition_hash.good"] == (hashes[0]["good"], hashes[1]["good"])
    # A definition is made of those it reads.
    assert set(code_) == {"source_hash", "definition_hash.good", "definition_hash.totals"}
    environment = differences(found["environment"])
    assert environment["spark_settings.spark.sql.shuffle.partitions"][1] == "3"
    inputs = differences(found["inputs"])
    given = [m["cryptographic_binding"]["input_hashes"]["orders"] for m in manifests]
    assert inputs == {
        "orders.bytes": (given[0]["bytes"], given[1]["bytes"]),
        "orders.hash": (given[0]["hash"], given[1]["hash"]),
    }
    ledgers = differences(found["ledgers"])
    assert ledgers["good.records_in"] == (27, 11)
    assert ledgers["good.fates.PASSED"] == (20, 11)
    assert ledgers["good.fates.FILTERED"] == (2, None)
    assert ledgers["good.rejections.refinement_error"] == (4, None)
    assert ledgers["good.rows_out"] == (20, 11)
    for path in ("good.content_digest", "good.keys.in", "totals.content_digest"):
        assert ledgers[path][0] != ledgers[path][1]
    assert "good.duration_ms" in differences(found["timings"])


def test_a_manifest_of_another_version_is_refused(shop: ReportHome) -> None:
    def changed(folder: Path) -> None:
        edit(folder / "manifest.json", manifest_version="1.0")

    shop.copied("first", "other", changed)
    refused = shop.tallyman("compare", "first", "other")
    assert (refused.code, refused.json["error"]["code"]) == (1, "run_damaged")
    assert "it is of version 1.0, not 2.0" in refused.json["error"]["message"]


def test_a_run_that_is_not_there_is_told(shop: ReportHome) -> None:
    assert shop.tallyman("compare", "first", "nowhere").code == 2
