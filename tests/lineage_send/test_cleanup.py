"""The spool does not grow for ever: what was sent goes when a person cleans up."""

from __future__ import annotations

import uuid

import pytest

from tallyman.domain.version.owner import Owner
from tallyman.registry.spool import Spool
from tests.lineage_send.conftest import OWNER, SpoolHome, spool_events

SEND = """
    UPDATE lineage_events SET sent_at = now() - make_interval(hours => %(hours)s), body = NULL
    WHERE run_id = %(run)s AND job = ANY(%(jobs)s)
"""
LEFT = "SELECT job FROM lineage_events WHERE run_id = %(run)s ORDER BY id"
SAID = "SELECT actor_id, details FROM audit_log WHERE event_type = 'lineage.cleaned'"
UNFINISHED = """
    UPDATE runs SET status = %(status)s::text,
        executor = CASE WHEN %(status)s::text = 'running' THEN gen_random_uuid() END
"""
A_DAY = 86_400


def sent(shop: SpoolHome, run: uuid.UUID, *numbers: int, hours: float) -> None:
    jobs = [f"job{number:04d}" for number in numbers]
    with shop.database.transaction() as tx:
        tx.execute(SEND, {"run": run, "jobs": jobs, "hours": hours})


def left(shop: SpoolHome, run: uuid.UUID) -> list[int]:
    with shop.database.transaction() as tx:
        rows = tx.execute(LEFT, {"run": run}).fetchall()
    return [int(row["job"].removeprefix("job")) for row in rows]


def test_cleanup_shows_and_removes_what_was_sent(shop: SpoolHome) -> None:
    run = uuid.uuid4()
    spool_events(shop.database, run, 8)
    sent(shop, run, 0, 1, 2, hours=25)
    sent(shop, run, 3, hours=23)
    with shop.database.transaction() as tx:
        refused = Spool(tx).next(OWNER)
        assert refused is not None
        Spool(tx).refused(refused.id, "no")  # job 4; 5, 6 and 7 wait

    code, seen = shop.answer("cleanup")
    assert (code, seen["confirmed"], seen["sent_events_removed"]) == (0, False, 3)
    assert left(shop, run) == [0, 1, 2, 3, 4, 5, 6, 7]
    code, text, _ = shop.printed("cleanup")
    assert "sent lineage events: 3" in text
    assert "nothing was removed; add --confirm to remove them" in text

    code, done = shop.answer("cleanup", "--confirm")
    assert (code, done["confirmed"], done["sent_events_removed"]) == (0, True, 3)
    assert left(shop, run) == [3, 4, 5, 6, 7]
    with shop.database.transaction() as tx:
        [said] = tx.execute(SAID).fetchall()
    assert said["details"] == {"events": 3}
    assert shop.answer("cleanup", "--confirm", "--older-than", "0s")[1]["sent_events_removed"] == 1
    assert left(shop, run) == [4, 5, 6, 7], "refused and waiting"
    state = shop.state()
    assert (state.waiting, state.refused) == (3, 1)
    assert shop.printed("cleanup")[1].strip() == "nothing to remove"


def test_that_a_run_was_told_of_is_not_forgotten(shop: SpoolHome) -> None:
    run = uuid.uuid4()
    spool_events(shop.database, run, 4)
    sent(shop, run, 0, 1, 2, 3, hours=48)
    with shop.database.transaction() as tx:
        assert Spool(tx).remove_done_with(OWNER, A_DAY) == 3
        assert Spool(tx).knows(run)
        assert Spool(tx).done_with(OWNER, A_DAY) == 0
    assert left(shop, run) == [3]


@pytest.mark.parametrize("status", ["running", "waiting_approval"])
def test_what_a_run_told_that_has_not_ended_stays(shop: SpoolHome, status: str) -> None:
    run = uuid.uuid4()
    spool_events(shop.database, run, 3)
    sent(shop, run, 0, 1, 2, hours=48)
    with shop.database.transaction() as tx:
        tx.execute(UNFINISHED, {"status": status})
        assert Spool(tx).remove_done_with(OWNER, A_DAY) == 0
    assert left(shop, run) == [0, 1, 2]


def test_another_projects_events_stay(shop: SpoolHome) -> None:
    run = uuid.uuid4()
    spool_events(shop.database, run, 3)
    sent(shop, run, 0, 1, 2, hours=48)
    with shop.database.transaction() as tx:
        assert Spool(tx).remove_done_with(Owner("default", "other"), A_DAY) == 0
