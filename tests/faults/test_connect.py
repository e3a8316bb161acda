"""The same engine over Spark Connect: only the public DataFrame API is used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.faults.conftest import left_by
from tests.world.home import Home


def test_spark_connect_gives_what_one_process_gives(
    project: Path, alone: dict[str, Any], spark_server: str
) -> None:
    assert alone["balanced"]
    connected = Home(project).ok("run", "--force", "--master", spark_server)
    assert left_by(project, connected["folder"]) == alone
