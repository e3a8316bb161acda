from __future__ import annotations

from collections.abc import Iterator

import pytest

from tallyman.query.trace.asset import Trace
from tests.trace_read import general_ledger
from tests.trace_read.layout import RunFiles


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trace]:
    """The trace of the general-ledger close."""
    run = RunFiles(tmp_path_factory.mktemp("closed"))
    general_ledger.write(run)
    with Trace(run.ended().open()) as trace:
        yield trace
