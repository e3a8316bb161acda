"""`tallyman trace` as a person and as a program see it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.trace_read import general_ledger
from tests.trace_read.layout import RUN_UUID, RunFiles, row_id
from tests.world.home import Home

ROW = row_id("JE-002/2")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, empty_database: Callable[[], str]) -> Home:
    """Runs that were copied here: the registry knows none of them."""
    path = tmp_path_factory.mktemp("home")
    (path / "tallyman.yaml").write_text(f"name: ledger\ndatabase: {empty_database()}\n")
    closed = RunFiles(path)
    general_ledger.write(closed)
    closed.untraced("plain")
    closed.ended()
    at_work = RunFiles(path, "at-work")
    general_ledger.write(at_work, until=10)
    at_work.begun()
    return Home(path)


def said(home: Home, *words: str) -> tuple[int, list[list[str]], str]:
    """Exit code, the words of each line, and what went to stderr."""
    code, out, err = home.printed("trace", *words)
    return code, [line.split() for line in out.splitlines()], err


def test_a_history_is_a_table_of_before_and_after(home: Home) -> None:
    code, lines, _ = said(home, "gl", "--key", "journal_id=JE-002,line=2")
    assert code == 0
    assert lines[:5] == [
        ["gl_close", "row", ROW],
        ["step", "what", "column", "before", "after"],
        ["10", "updated", "amount_reporting", "null", "-9282.00"],
        ["20", "updated", "amount_local", "-8500.00", "-8925.00"],
        ["30", "deleted", "_deleted", "false", "true"],
    ]
    assert " ".join(lines[5]) == "step 10, update: amount_reporting = amount_local * fx.rate"


def test_the_same_as_json(home: Home) -> None:
    found = home.ok("trace", "gl", ROW, "--include-baseline")
    assert (found["run_id"], found["asset"], found["row_id"]) == ("gl", "gl_close", ROW)
    assert [entry["operation_seq"] for entry in found["history"]] == [0, 10, 20, 30]
    assert found["history"][1]["diff"] == {"amount_reporting": {"old": None, "new": "-9282.00"}}
    assert found["history"][1]["full_state"]["_updated_at"] == "2026-02-01T00:00:00+00:00"
    assert found["diagnostic"] is None


def test_a_row_at_a_step_is_a_table_of_two_columns(home: Home) -> None:
    code, lines, _ = said(home, "gl", ROW, "--at-step", "20")
    assert code == 0
    assert ["amount_local", "-8925.00"] in lines
    assert ["description", "null"] in lines
    found = home.ok("trace", "gl", ROW, "--at-step", "40")
    assert found["row_at_step"]["_deleted"] is True
    assert found["row_at_step"]["amount_local"] == "-8925.00"


def test_changes_of_a_step_come_in_pages(home: Home) -> None:
    asked = ("gl", "--asset", "gl_close", "--step", "30")
    first = home.ok("trace", *asked, "--limit", "1")
    second = home.ok("trace", *asked, "--limit", "1", "--after", first["next_after"])
    assert second["next_after"] is None
    changes = [*first["changes"], *second["changes"]]
    assert [c["row_id"] for c in changes] == sorted([ROW, row_id("JE-004/2")])
    assert {"run_id": RUN_UUID, "before": {"_deleted": False}, "after": None}.items() <= changes[
        0
    ].items()
    code, lines, _ = said(home, *asked, "--limit", "1")
    assert (code, lines[-1][-2:]) == (0, ["--after", first["next_after"]])


def test_a_run_alone_lists_its_steps(home: Home) -> None:
    found = home.ok("trace", "gl")
    steps = {
        s["seq"]: (s["created"], s["updated"], s["deleted"]) for s in found["assets"][0]["steps"]
    }
    assert steps == {
        10: (0, 6, 0),
        20: (0, 6, 0),
        30: (0, 0, 2),
        40: (4, 0, 0),
        50: (3, 0, 0),
        60: (0, 3, 0),
        70: (0, 0, 0),
    }
    code, lines, _ = said(home, "gl")
    assert code == 0
    assert " ".join(lines[0]) == "gl_close 24 changes 7 loaded rows touched"
    assert lines[-1][:3] == ["plain", "not", "traced:"]


def test_a_key_of_several_rows_asks_for_one(home: Home) -> None:
    code, lines, _ = said(home, "gl", "--key", "journal_id=JE-003")
    listed = {words[0] for words in lines[2:]}
    assert (code, listed) == (2, {row_id("JE-003/1"), row_id("JE-003/2")})
    reply = home.tallyman("trace", "gl", "--key", "journal_id=JE-003", "--key", "account=1200")
    assert (reply.code, reply.json["row_id"]) == (0, row_id("JE-003/2"))


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ((row_id("JE-001/1"),), 1, "RowNotFound"),
        (("--key", "journal_id=JE-001"), 1, "RowNotFound"),
        ((row_id("USD", 4), "--at-step", "10"), 1, "RowNotYetCreated"),
        ((ROW, "--at-step", "15"), 2, "step_out_of_range"),
        ((ROW, "--asset", "plain"), 2, "no_trace"),
        (("--step", "10"), 2, "usage_error"),
        (("--at-step", "10"), 2, "usage_error"),
        ((ROW, "--key", "line=2"), 2, "usage_error"),
    ],
)
def test_no_answer_is_told_in_the_exit_code(
    home: Home, words: tuple[str, ...], code: int, told: str
) -> None:
    reply = home.tallyman("trace", "gl", *words)
    why = reply.json.get("diagnostic") or reply.json["error"]
    assert (reply.code, why["code"]) == (code, told)


def test_runs_that_are_not_there_or_at_work_are_refused(home: Home) -> None:
    unknown, running = home.tallyman("trace", "nobody"), home.tallyman("trace", "at-work")
    assert (unknown.code, unknown.json["error"]["code"]) == (2, "not_found")
    assert (running.code, running.json["error"]["code"]) == (4, "run_not_finished")
    code, _, err = said(home, "gl", ROW, "--at-step", "15")
    assert (code, "10, 20, 30, 40, 50, 60, 70" in err) == (2, True)
    assert str(home.path) not in err


def test_damage_is_told_without_a_path_of_the_machine(home: Home, tmp_path: Path) -> None:
    run = RunFiles(home.path, "damaged")
    files = general_ledger.write(run)
    files.file(20).write_bytes(b"PAR1")
    run.ended()
    reply = home.tallyman("trace", "damaged", ROW)
    assert (reply.code, reply.json["error"]["code"]) == (1, "trace_corrupt")
    assert "operation_seq=20/rows-00-00000.parquet" in reply.json["error"]["message"]
    assert str(home.path) not in json.dumps(reply.json)
