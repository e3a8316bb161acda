"""The help is grouped by purpose, fits a terminal, and the reference names every command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

import tallyman.cli
from tallyman.cli.commands import IN_MODULE, PANELS
from tallyman.cli.main import app

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
COMMANDS: TyperGroup = typer.main.get_command(app)  # type: ignore[assignment]
WIDEST = 64
"""Characters that fit beside the name of a command on a terminal of 80 columns."""


def every(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        yield (*path, name), command
        if hasattr(command, "commands"):
            yield from every(command, (*path, name))


def test_every_command_is_in_a_panel_of_at_most_a_dozen() -> None:
    counts: dict[str | None, int] = {}
    for path, command in every(COMMANDS):
        if len(path) == 1:
            counts[command.rich_help_panel] = counts.get(command.rich_help_panel, 0) + 1
    assert list(counts) == list(PANELS)
    assert max(counts.values()) <= 12, counts


def test_every_command_is_described_in_one_line() -> None:
    for path, command in every(COMMANDS):
        first = command.help.split("\n\n")[0]
        assert "\n" not in first, path
        assert len(path) > 1 or len(first) <= WIDEST, (path, len(first))


def test_the_reference_names_every_command() -> None:
    text = REFERENCE.read_text()
    for path, _ in every(COMMANDS):
        group, leaf = path[0], path[-1]
        named = re.search(rf"`{group}[ `]", text) and re.search(rf"\b{leaf}\b", text)
        assert named, path


@pytest.mark.parametrize("words", [["verify", "--help"], ["verify", "chain", "--help"]])
def test_verify_is_a_group_with_help_of_its_own(words: list[str]) -> None:
    said = CliRunner().invoke(app, words)
    assert said.exit_code == 0
    assert ("--head" in said.output) is ("chain" in words)


def test_verify_without_a_subcommand_checks_a_run(tmp_path: Path) -> None:
    for words in (["verify"], ["verify", "latest", "--exact"], ["verify", "run", "latest"]):
        said = CliRunner().invoke(app, [*words, "--project", str(tmp_path)])
        assert "tallyman.yaml" in str(said.exception), words


def test_a_mistyped_command_is_answered_with_the_nearest() -> None:
    said = CliRunner().invoke(app, ["lss"])
    assert said.exit_code == 2
    assert "Did you mean 'ls'" in said.output


def test_every_module_of_a_panel_is_a_command() -> None:
    rooms = Path(tallyman.cli.__file__).parent
    for panel, names in PANELS.items():
        modules = {IN_MODULE.get(name, name).replace("-", "_") for name in names}
        room = f"tallyman.cli.{panel.lower()}"
        stems = [file.stem for file in (rooms / panel.lower()).glob("[a-z]*.py")]
        named = {stem for stem in stems if hasattr(import_module(f"{room}.{stem}"), stem)}
        assert named == modules
