"""A run stopped at the terminal, with a Spark of its own, says what was left and can go on."""

from __future__ import annotations

from tests.faults.conftest import Stopped


def test_ctrl_c_says_what_was_left_and_exits_130(stopped: Stopped) -> None:
    assert stopped.code == 130, stopped.err
    assert "interrupted" in stopped.err
    assert "tallyman resume stopped" in stopped.err
    assert stopped.outputs == []
    [asset] = stopped.shown["assets"]
    assert (stopped.shown["status"], asset["status"]) == ("canceled", "canceled")

    code, result = stopped.resumed
    assert (code, result["status"], result["run_id"]) == (0, "success", "stopped")
