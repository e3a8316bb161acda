"""What a run says of targets that failed, when others were published."""

from datetime import UTC, datetime
from uuid import uuid4

from tallyman.domain.history.run import AssetResult, RunResult, Status
from tallyman.domain.version.commit import Commit
from tallyman.domain.version.owner import Owner

HINT = {"hint": "Nothing was published. Correct the records."}
FAILED = AssetResult(name="a", status=Status.HALTED, error=HINT)


def test_a_failed_target_of_a_run_that_published_others_speaks_for_itself() -> None:
    result = RunResult(run_id="r", status=Status.HALTED, folder="runs/r", assets=(FAILED,))
    commit = Commit(
        id=uuid4(), seq=1, kind="run", parent=None, actor="ann", owner=Owner("o", "p"), run_id=None,
        message=None, pipeline_version=None, details={}, created_at=datetime.now(UTC), moves=(),
    )  # fmt: skip
    [shown] = result.with_commit(commit).assets
    assert (shown.error or {})["hint"] == "Nothing of it was published. Correct the records."
    assert result.with_commit(None).assets == (FAILED,)
