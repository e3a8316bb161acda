"""The order of runs and results is that in which the database wrote them, whatever clocks said."""

from __future__ import annotations

from datetime import timedelta

from tallyman.domain.pipeline.target import Target
from tallyman.domain.version.owner import Owner
from tallyman.registry.database import Database
from tallyman.registry.run.lineage import Lineage
from tallyman.registry.run.materializations import Materializations
from tallyman.registry.run.runs import Runs
from tests.registry.conftest import History, Made

OWNER = Owner("default", "test")
A_YEAR = timedelta(days=365)


def test_a_run_with_the_clock_a_year_ahead_is_not_the_latest_for_ever(
    database: Database, history: History
) -> None:
    history.now += A_YEAR
    ahead = history.begin()
    history.add("numbers", reads=(Made("wrong"),))
    history.add("broken", status="success")
    history.now -= A_YEAR
    after = history.begin()
    numbers = history.add("numbers", reads=(Made("right"),))
    broken = history.add("broken", status="failed")
    with database.transaction() as tx:
        runs, made = Runs(tx), Materializations(tx)
        assert runs.get("latest", OWNER).id == after
        assert [run.id for run in runs.list(OWNER)] == [after, ahead]
        newest = {one.target.asset: one.id for one in made.latest_of_each(OWNER)}
        assert newest == {"numbers": numbers.id, "broken": broken.id}
        success = made.last_success(OWNER, Target("numbers", None))
        assert success is not None
        assert success.id == numbers.id
        assert [one.id for one in made.unfinished(OWNER)] == [broken.id]
        assert [one.asset for one in Lineage(tx, OWNER).up("numbers", None)] == ["right"]
