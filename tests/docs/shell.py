"""A terminal for a page: a folder, an environment, and commands whose output is kept."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tallyman.registry.database import Database
from tests.forked import Running, command
from tests.world.homes import INTERPRETED

HOME = "/home/ann"
"""What a reader sees instead of the test's folder."""
_CD = re.compile(r"^cd (\S+)(?: && (.*))?$", re.DOTALL)
_EXPORT = re.compile(r"^export (\w+)=(\S+)$")
_ASSIGNED = re.compile(r"^\w+=")
_SHELL = set("|<>;&$*`(\n")


@dataclass
class Shell:
    """`tallyman` is forked after its imports, everything else is run by bash."""

    root: Path
    environment: dict[str, str]
    give_database: Callable[[Path], Path]
    inside: Path = Path()
    _held: dict[Path, Database] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.root / self.inside

    def run(self, text: str) -> list[str]:
        """Return what the command printed, errors among the rest."""
        if moved := _CD.match(text):
            self._change_folder(moved[1])
            text = moved[2]
        elif assigned := _EXPORT.match(text):
            self.environment[assigned[1]] = assigned[2]
            text = ""
        if not text:
            return []
        self._ready()
        printed = self._tallyman(text) if _is_tallyman(text) else self._bash(text)
        return printed.replace(str(self.root), HOME).rstrip("\n").split("\n") if printed else []

    def _change_folder(self, name: str) -> None:
        found = [*self.folder.glob(name)] if "*" in name else [self.folder / name]
        assert len(found) == 1, f"cd {name}: {len(found)} folders are called so in {self.folder}"
        self.inside = Path(os.path.relpath(os.path.normpath(found[0]), self.root))

    def kept(self, place: Path) -> None:
        """Copy the folder with its databases, which have to be at rest for that."""
        self.close()
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run(["cp", "-a", str(self.root), str(place)], check=True)

    def close(self) -> None:
        while self._held:
            self._held.popitem()[1].close()

    def _ready(self) -> None:
        """Give a new project a database that is made, and hold the server between commands; let
        Spark interpret its plans, which takes half the time for a handful of rows."""
        settings = self.folder / "tallyman.yaml"
        if not settings.exists():
            return
        if INTERPRETED not in (written := settings.read_text()):
            settings.write_text(written + INTERPRETED)
        state = self.folder / ".tallyman"
        if not state.exists():
            self.give_database(self.folder)
        if state not in self._held:
            self._held[state] = Database(None, state)
            self._held[state].url()

    def _tallyman(self, text: str) -> str:
        words = shlex.split(text)
        given = dict(self.environment)
        while _ASSIGNED.match(words[0]):
            name, _, value = words.pop(0).partition("=")
            given[name] = value
        _, out, _ = Running(self.folder, given, partial(_together, *words[1:])).wait()
        return out

    def _bash(self, text: str) -> str:
        done = subprocess.run(
            ["bash", "-c", text],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.stdout


def environment(spark_server: str) -> dict[str, str]:
    scripts = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "PATH": f"{scripts}:{os.environ['PATH']}",
        "SPARK_REMOTE": spark_server,
        "TALLYMAN_ACTOR": "ann",
        "TZ": "UTC",
    }


def _is_tallyman(text: str) -> bool:
    if _SHELL & set(text):
        return False
    words = [word for word in shlex.split(text) if not _ASSIGNED.match(word)]
    return words[:1] == ["tallyman"]


def _together(*words: str) -> None:
    """Errors go where the rest goes, line by line, as a terminal shows them."""
    os.dup2(1, 2)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    command(*words)
