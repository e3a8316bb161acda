"""Every command by name. The module of a command is imported when the command is used, or when
the help lists it."""

from __future__ import annotations

from importlib import import_module
from itertools import chain
from typing import Any

import typer
from typer.core import TyperGroup

from tallyman.cli.terminal.output import interrupted

# The panels of `tallyman --help`, and the commands of each in the order they are listed. A panel is
# a room of `tallyman.cli`, a command is a module there.
PANELS = {
    "Start": ("init", "demo", "doctor"),
    "Run": (
        "run", "backfill", "resume", "watch", "cancel", "approve", "reject", "approvals",
        "rejections", "invalidate", "breakers",
    ),
    "Read": (
        "ls", "graph", "status", "runs", "show", "report", "compare", "read", "versions",
        "commits", "diff", "pipeline-versions",
    ),
    "Publish": (
        "plan", "apply", "diff-pipeline", "rollback", "snapshot", "rename", "hide", "expose",
        "mutate", "load",
    ),
    "Ask": ("why", "where", "trace", "lineage"),
    "Check": ("check", "compile", "verify", "reproduce", "audit", "keys"),
    "Operate": ("server", "worker", "tasks", "pools", "cleanup", "purge", "db"),
}  # fmt: skip
IN_MODULE = {"reject": "approve", "approvals": "approve", "hide": "rename", "expose": "rename"}
"""Commands in the module of another command."""


class Commands(TyperGroup):
    """A command group that imports a command only when it is used: `tallyman ls` needs no other."""

    def __init__(self, **given: Any) -> None:
        # Their names alone, so that a mistyped command is answered with the nearest one.
        super().__init__(**given | {"commands": dict.fromkeys(chain(*PANELS.values()))})

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for names in PANELS.values() for name in names]

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            interrupted(error)  # Typer would end without a word
            raise typer.Exit(130) from None

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        panel = next((panel for panel, names in PANELS.items() if cmd_name in names), None)
        if panel is None:
            return None
        module = IN_MODULE.get(cmd_name, cmd_name).replace("-", "_")
        place = import_module(f"tallyman.cli.{panel.lower()}.{module}")
        found = getattr(place, cmd_name.replace("-", "_"))
        alone = typer.Typer(callback=lambda: None)
        if isinstance(found, typer.Typer):
            alone.add_typer(found, name=cmd_name, rich_help_panel=panel)
        else:
            alone.command(cmd_name, rich_help_panel=panel)(found)
        return typer.main.get_group(alone).commands[cmd_name]
