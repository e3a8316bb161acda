"""A folder that is used again for every case, and the promise that each case must keep."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.world.command import in_process
from tests.world.reply import Reply

SOUND = """\
import tallyman as tm

tm.source("orders", "data/orders.jsonl", key="id", schema="id int, v int")


@tm.asset(key="id")
def kept(orders):
    return orders.filter("v > 0", reason="none")
"""


@dataclass
class Fuzzed:
    """A project folder. `kept` are files that no case may change."""

    path: Path
    settings: bytes = b"name: fuzzed\n"
    files: dict[str, bytes] = field(default_factory=dict)

    def fresh(self) -> None:
        for inside in self.path.iterdir():
            shutil.rmtree(inside) if inside.is_dir() else inside.unlink()
        (self.path / "tallyman.yaml").write_bytes(self.settings)
        (self.path / "pipelines").mkdir()
        (self.path / "data").mkdir()
        (self.path / "data" / "orders.jsonl").write_text('{"id": 1, "v": 1}\n')
        for name, content in self.files.items():
            (self.path / name).write_bytes(content)

    def says(self, *words: str) -> Reply:
        """Run the command, and check what holds for every one of them."""
        reply = in_process(self.path, words, {"TALLYMAN_ACTOR": "fuzz"})
        said = reply.stdout + reply.stderr
        assert reply.code in range(5), reply
        assert "Traceback" not in said, reply
        assert reply.code == 0 or said.strip(), "an error without a word"
        return reply

    def left(self) -> set[str]:
        """Files that the command added."""
        found = {str(p.relative_to(self.path)) for p in self.path.rglob("*") if p.is_file()}
        known = {"tallyman.yaml", "data/orders.jsonl", *self.files}
        return {name for name in found - known if "__pycache__" not in name}


@pytest.fixture
def fuzzed(tmp_path: Path) -> Callable[..., Fuzzed]:
    def make(settings: bytes = b"name: fuzzed\n", **files: bytes) -> Fuzzed:
        named = {f"pipelines/{name.replace('__', '.')}": text for name, text in files.items()}
        made = Fuzzed(tmp_path, settings, named)
        made.fresh()
        return made

    return make
