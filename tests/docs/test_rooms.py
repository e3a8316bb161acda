"""The list of rooms in the architecture is that of the code, each with the line of its charter."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

from tests.docs.page import ROOT

PAGE = ROOT / "docs" / "architecture.md"
CODE = ROOT / "src" / "tallyman"
LAYER = re.compile(r"^- \*\*`(\w+)/`\*\* (.+)$")
ROOM = re.compile(r"^  - `(\w+)`: (.+)$")
ELSEWHERE = {"errors"}
"""Described in the sentence below the list."""


def charter(folder: Path) -> str:
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    assert text, f"{folder} says nothing about itself"
    line = text.split("\n")[0]
    assert line.endswith("."), f"{folder}: its first line does not end where its sentence does"
    return line


def listed() -> dict[int, tuple[Path, str]]:
    """By line: the folder, and what the page says of it."""
    found: dict[int, tuple[Path, str]] = {}
    layer = CODE
    for number, line in enumerate(PAGE.read_text().split("\n")):
        if of_layer := LAYER.match(line):
            layer = CODE / of_layer[1]
            found[number] = layer, of_layer[2]
        elif of_room := ROOM.match(line):
            found[number] = layer / of_room[1], of_room[2]
    return found


def test_every_room_is_listed() -> None:
    rooms = {p.parent for depth in ("*", "*/*") for p in CODE.glob(f"{depth}/__init__.py")}
    assert {folder for folder, _ in listed().values()} == rooms - {CODE / n for n in ELSEWHERE}


def test_the_line_of_a_room_is_its_charter() -> None:
    wrong = {n: (f, said) for n, (f, said) in listed().items() if said != charter(f)}
    if os.environ.get("TALLYMAN_RECORD"):
        lines = PAGE.read_text().split("\n")
        for number, (folder, said) in wrong.items():
            lines[number] = lines[number].replace(said, charter(folder))
        PAGE.write_text("\n".join(lines))
        return
    assert not wrong
