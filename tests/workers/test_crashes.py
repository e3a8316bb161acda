"""A server that dies while it records, publishes or closes leaves the rest to the next one."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.workers.service import Service
from tests.world.scale import some

DAY = "2025-02-01"


@pytest.mark.parametrize("point", some(["metadata_written", "report_written"], 1))
def test_another_server_takes_over_from_a_killed_one(
    new_service: Callable[[], Service], point: str
) -> None:
    service = new_service()
    home = service.home.numbers(DAY, 1, 2, 3)
    first = service.server(TALLYMAN_CRASH_AT=point)
    service.worker()
    watching = home.start("run", "+sum", "--partition", DAY, "--run-id", "hit", "--json")
    assert first.process.wait(timeout=200) == -9
    service.server()
    code, out, _ = watching.wait()
    assert (code, json.loads(out)["status"]) == (0, "success")
    assert [row[1] for row in home.rows("sum")] == [6]
    assert len(home.ok("commits")) == 1
    assert {status for _, status in service.tasks("hit")} == {"Completed"}
    home.ok("verify", "run", "hit")
    assert home.damaged() == []
