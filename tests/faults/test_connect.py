"""The same engine over Spark Connect: only the public DataFrame API is used."""

from __future__ import annotations

from pathlib import Path

from tests.faults.conftest import left_by, tallyman
from tests.spark_servers import connect_server


def test_spark_connect_gives_what_one_process_gives(project: Path, tmp_path: Path) -> None:
    code, alone = tallyman(project, "run")
    assert code == 0, alone
    (tmp_path / "server").mkdir()
    with connect_server(tmp_path / "server") as address:
        code, connected = tallyman(project, "run", "--force", "--master", address)
    assert code == 0, connected
    assert left_by(project, connected["folder"]) == left_by(project, alone["folder"])
