"""The report of a run: the same numbers as its ledgers, in text, JSON and on a page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.report.conftest import LONG, SCRIPT, ReportHome, edit
from tests.report.wellformed import checked
from tests.world.scale import some

ENDED = ("first", "again", "halted", "changed", "empty", "partly", "crashed")


def total(part: dict[str, Any], kind: str) -> int:
    found = part["output_accounting"]["partitions"]
    return sum(p["record_count"] for p in found if p["partition_type"] == kind)


def test_the_runs_of_the_shop_ended_in_all_these_ways(shop: ReportHome) -> None:
    assert shop.statuses() == {
        "first": "success",
        "again": "success",
        "halted": "halted",
        "changed": "success",
        "empty": "success",
        "partly": "failed",
        "crashed": "interrupted",
    }


@pytest.mark.parametrize("name", some(ENDED, 3))
def test_every_run_renders_as_a_whole_page_and_as_text(shop: ReportHome, name: str) -> None:
    page = checked(shop.page(name))
    assert f"state {shop.statuses()[name]}" in [a.get("class") for _, a in page.tags]
    code, text, said = shop.printed("report", shop.id(name))
    assert code == 0, said
    assert text.startswith(f"run {shop.id(name)}   ")


def test_numbers_of_report_page_and_show_are_those_of_the_ledger(shop: ReportHome) -> None:
    ledger = shop.read("first", "good/ledger.json")
    report = shop.read("first", "processing_report.json")
    shown = shop.ok("show", "first")
    told = shop.ok("report", "first")
    door = ledger["input_accounting"]["total_records"]
    assert door == 27
    counts = {
        "PASSED": total(ledger, "PASS_THROUGH"),
        "FILTERED": total(ledger, "FILTERED"),
        "ERROR": total(ledger, "ERROR"),
    }
    assert counts == {"PASSED": 20, "FILTERED": 2, "ERROR": 5}
    for facts in (report["assets"][0], shown["assets"][0], told["assets"][0]):
        assert facts["records_in"] == door
        assert {fate: facts["fates"][fate] for fate in counts} == counts
        assert facts["error_rate"] == pytest.approx(5 / 27)
        assert facts["filtered_rate"] == pytest.approx(2 / 27)
    page = checked(shop.page("first"))
    assert "27 in = 20 passed + 2 filtered + 5 rejected" in page.text
    # The children that `explode` makes, and the groups: equations of their own.
    assert "20 in = 20 exploded" in page.text
    assert "40 children = 40 aggregated" in page.text
    assert "3 groups = 3 passed" in page.text
    rules = {r["morphism_path"]: r["count"] for r in told["assets"][0]["rules"]}
    assert rules == {"good.short_note": 4, "orders.price": 1}
    assert [(f["step"], f["predicate"], f["count"]) for f in told["assets"][0]["filters"]] == [
        ("priced", "price > 0", 2)
    ]


def test_bytes_are_those_of_the_files(shop: ReportHome) -> None:
    facts = shop.read("first", "processing_report.json")["assets"][0]
    place = shop.folder_of("first") / "good"
    for kind, folder in (("output", "output"), ("evidence", "adjoint"), ("dead_letters", "errors")):
        files = [file for file in (place / folder).rglob("*") if file.is_file()]
        counted = {"files": len(files), "bytes": sum(file.stat().st_size for file in files)}
        assert facts["bytes"][kind] == counted
        assert counted["bytes"] > 0
    [read] = facts["inputs"]
    bound = shop.read("first", "manifest.json")["cryptographic_binding"]["input_hashes"]["orders"]
    assert {name: read[name] for name in ("files", "bytes", "hash")} == {
        name: bound[name] for name in ("files", "bytes", "hash")
    }


def test_timings_are_kept_of_phases_and_up_to_steps(shop: ReportHome) -> None:
    report = shop.read("first", "processing_report.json")
    good = report["assets"][0]
    phases = {lap["phase"]: lap["ms"] for lap in good["timings"] if "phase" in lap}
    assert set(phases) == {"opening", "evaluating", "settling", "proving", "staging"}
    made = sum(ms for phase, ms in phases.items() if phase != "staging")
    assert made == pytest.approx(good["duration_ms"], abs=50)
    steps = [lap["up_to_step"] for lap in good["timings"] if "up_to_step" in lap]
    assert steps
    assert steps[-1] == good["last_completed_operation"]
    assert [lap["phase"] for lap in report["timings"]] == ["publishing"]


def test_show_tells_seal_lineage_and_what_the_run_was_bound_to(shop: ReportHome) -> None:
    shown = shop.ok("show", "first")
    manifest = shop.read("first", "manifest.json")
    assert shown["binding"]["config_hash"] == manifest["cryptographic_binding"]["config_hash"]
    assert shown["lineage"]["openlineage_run_id"] == manifest["openlineage_run_id"]
    assert set(shown["lineage"]["assets"]) == {"scenario.good", "scenario.totals"}
    seal = shop.read("first", "seal.json")
    assert shown["seal"]["ordinal"] == seal["ordinal"] == 1
    assert shown["seal"]["manifest"] == seal["files"]["manifest.json"]
    page = checked(shop.page("first"))
    for text in (shown["seal"]["hash"], shown["binding"]["config_hash"], "tallyman verify first"):
        assert text in page.text


def test_digests_of_the_door_and_of_all_fates_are_equal_on_the_page(shop: ReportHome) -> None:
    ledger = shop.read("first", "good/ledger.json")
    proof = shop.ok("report", "first")["assets"][0]["proofs"][0]
    assert proof["door_digest"] == ledger["input_accounting"]["key_digest"]
    assert proof["fates_digest"] == proof["door_digest"]
    assert (proof["missing"], proof["extra"], proof["duplicate"]) == (0, 0, 0)
    assert proof["door_digest"] in checked(shop.page("first")).text


def test_hostile_values_are_shown_and_never_obeyed(shop: ReportHome) -> None:
    text = shop.page("first")
    page = checked(text)
    assert SCRIPT not in text
    assert "&lt;script&gt;" in text
    assert f"<b>{SCRIPT}</b>"[:20] in page.text
    assert "<img src=x onerror=alert(1)>" in page.text
    assert "given <b>away</b>" in page.text
    assert LONG not in text
    assert "(5,000 characters)" in page.text
    code, plain, _ = shop.printed("report", "first")
    assert code == 0
    assert "\0" not in plain
    assert LONG not in plain


def test_a_halted_run_tells_why_and_that_nothing_was_published(shop: ReportHome) -> None:
    page = checked(shop.page("halted"))
    error = shop.answers["halted"]["assets"][0]["error"]
    assert error["message"] in page.text
    assert error["hint"] in page.text
    assert "readers see the same versions as before" in page.text


def test_partitions_are_one_table_and_only_failures_are_told_at_length(shop: ReportHome) -> None:
    page = checked(shop.page("partly"))
    assert "All 3 partitions" in page.text
    # The two at the door of the partition that failed were not followed to the end.
    assert "6 in = 4 passed + 2 unaccounted for" in page.text
    assert "the run stopped before they met a fate" in page.text
    targets = shop.ok("report", shop.id("partly"))["assets"][0]["targets"]
    assert [(one["records_in"], one["unaccounted"]) for one in targets] == [(3, 0), (2, 2), (1, 0)]
    assert page.text.count("last completed step") <= 1
    failures = [a for _, a in page.tags if a.get("class") == "failure"]
    assert len(failures) == 1
    assert "DIVIDE_BY_ZERO" in page.text


@pytest.mark.parametrize("status", some(["canceled", "waiting_approval", "failed"], 1))
def test_a_copied_run_is_told_from_its_files_alone(shop: ReportHome, status: str) -> None:
    shop.copied(
        "first",
        f"from-{status}",
        lambda folder: edit(folder / "processing_report.json", status=status),
    )
    page = checked(shop.page(f"from-{status}"))
    assert "27 in = 20 passed + 2 filtered + 5 rejected" in page.text
    assert f"state {status}" in [a.get("class") for _, a in page.tags]
    assert "Not sealed" in page.text


def test_a_run_folder_without_a_report_is_told_as_not_known(shop: ReportHome) -> None:
    shop.copied("first", "cut-off", lambda folder: (folder / "processing_report.json").unlink())
    page = checked(shop.page("cut-off"))
    assert "unknown" in page.text


def test_columns_that_are_redacted_stay_so(shop: ReportHome) -> None:
    shop.copied("first", "secret", lambda folder: edit(folder / "config.json", redact=["price"]))
    page = checked(shop.page("secret"))
    assert "onerror" not in page.text
    assert "redacted" in page.text
    shop.copied("first", "secret-key", lambda folder: edit(folder / "config.json", redact=["id"]))
    assert shows_values(shop, "first")
    assert not shows_values(shop, "secret-key")


@pytest.mark.parametrize("redact", some([["ID"], ["*"], ["named_otherwise"]], 1))
def test_no_value_is_shown_where_it_may_be_of_a_redacted_column(
    shop: ReportHome, redact: list[str]
) -> None:
    name = f"secret-{redact[0].strip('*')}"
    shop.copied("first", name, lambda folder: edit(folder / "config.json", redact=redact))
    assert not shows_values(shop, name)
    assert counts(shop, name) == counts(shop, "first")


def test_columns_redacted_today_are_so_in_older_runs(shop: ReportHome) -> None:
    shop.copied("first", "no-config", lambda folder: (folder / "config.json").unlink())
    shop.copied("first", "bad-config", lambda folder: (folder / "config.json").write_text("{"))
    runs = ("first", "no-config", "bad-config")
    assert all(shows_values(shop, run) for run in runs)
    with redacted_today(shop, "Note"):
        assert not any(shows_values(shop, run) for run in runs)


def test_an_error_that_may_quote_a_redacted_value_tells_its_kind(shop: ReportHome) -> None:
    quoting = {"code": "rows_not_distinct", "message": "o-1 is there twice", "hint": "Look."}
    counting = {"code": "threshold_exceeded", "message": "7 of 27 records"}

    def change(folder: Path) -> None:
        path = folder / "processing_report.json"
        first, *rest = json.loads(path.read_text())["assets"]
        edit(path, assets=[{**first, "error": quoting}, *rest], error=counting)

    shop.copied("first", "quoting", change)
    assert "o-1 is there twice" in shop.page("quoting")
    with redacted_today(shop, "id"):
        page = shop.page("quoting")
    assert "o-1" not in page
    assert "rows_not_distinct: its message may show redacted values" in page
    assert "7 of 27 records" in page


def shows_values(shop: ReportHome, run: str) -> bool:
    """In no form, or in all of them."""
    told = shop.ok("report", run)["assets"][0]["rules"]
    samples = [sample for rule in told for sample in rule["samples"]]
    hidden = {(one["key"], one["actual"]) for one in samples} == {("redacted", "redacted")}
    code, text, said = shop.printed("report", run)
    assert code == 0, said
    for form in (text, shop.page(run)):
        assert ("o-26" in form) is not hidden
        assert ("onerror" in form) is not hidden
    return not hidden


def counts(shop: ReportHome, run: str) -> list[tuple[str, int]]:
    told = shop.ok("report", run)["assets"][0]["rules"]
    return [(rule["morphism_path"], rule["count"]) for rule in told]


@contextmanager
def redacted_today(shop: ReportHome, *columns: str) -> Iterator[None]:
    file = shop.path / "tallyman.yaml"
    before = file.read_text()
    file.write_text(f"{before}\ntrace: {{redact: {json.dumps(columns)}}}\n")
    try:
        yield
    finally:
        file.write_text(before)


def test_a_terminal_obeys_nothing_of_a_copied_run(shop: ReportHome) -> None:
    bell = "\x1b]0;gone\x07"

    def change(folder: Path) -> None:
        path = folder / "manifest.json"
        given = json.loads(path.read_text())
        bound = given["cryptographic_binding"]
        inputs = {f"{name}{bell}": one for name, one in bound["input_hashes"].items()}
        bound = {**bound, "input_hashes": inputs}
        edit(path, project=f"shop{bell}", actor=bell, cryptographic_binding=bound)
        path = folder / "processing_report.json"
        assets = json.loads(path.read_text())["assets"]
        edit(path, assets=[{**one, "name": f"{one['name']}{bell}"} for one in assets])

    shop.copied("first", "hostile", change)
    code, text, said = shop.printed("report", "hostile")
    assert code == 0, said
    assert [c for c in text if not c.isprintable() and c != "\n"] == []
    for name in ("shop", "good", "totals", "input       orders"):
        assert f"{name}\\x1b]0;gone\\x07" in text


def test_the_page_is_written_here_and_never_into_a_run(shop: ReportHome) -> None:
    written = shop.ok("report", "first", "--html")
    assert Path(written["file"]) == shop.path / "report-first.html"
    assert checked(Path(written["file"]).read_text()).text
    inside = shop.folder_of("first") / "report.html"
    refused = shop.tallyman("report", "first", "--html", "--output", str(inside))
    assert refused.code == 2
    assert not inside.exists()
    assert "sealed" in refused.json["error"]["message"]
