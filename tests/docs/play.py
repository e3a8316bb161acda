"""Run a page from top to bottom; the result says what differs and what the page should show."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs import masks
from tests.docs.page import Block, Note, Page
from tests.docs.shell import Shell


@dataclass(frozen=True)
class State:
    """A folder that pages may go on with, where in it they stand, and the ids of its story."""

    folder: Path
    inside: Path = Path()
    names: dict[str, str] = field(default_factory=dict)


@dataclass
class Played:
    page: Page
    problems: list[str] = field(default_factory=list)
    blocks: dict[Block, list[str]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def rewritten(self) -> str:
        """The page as it should be."""
        lines = list(self.page.lines)
        for block, content in reversed(self.blocks.items()):
            lines[block.first : block.last] = content
        return "\n".join(lines)


@dataclass
class Player:
    page: Page
    shell: Shell
    state: Callable[[str], State]
    answer: Callable[[str], str]
    keep: Callable[[str, State], None]
    afresh: bool = False
    """Record this run with its ids and times, also where the page is right."""

    def play(self) -> Played:
        done = Played(self.page)
        try:
            for part in self.page.parts:
                if isinstance(part, Note):
                    self._note(part, done)
                elif part.language == "console" and part.note[0] != "not executed":
                    self._console(part, done)
                elif part.info:
                    self._file(part)
        finally:
            self.shell.close()
        return done

    def _note(self, note: Note, done: Played) -> None:
        if note.kind == "setup":
            self.shell.run(note.text)
        elif note.kind == "keep":
            place = self.shell.root.with_name(f"kept-{note.text}")
            self.shell.kept(place)
            self.keep(note.text, State(place, self.shell.inside, dict(done.names)))
        else:
            state = self.state(note.text)
            self.shell.close()
            subprocess.run(["rm", "-rf", str(self.shell.root)], check=True)
            subprocess.run(["cp", "-a", str(state.folder), str(self.shell.root)], check=True)
            self.shell.inside = state.inside
            done.names |= state.names

    def _file(self, block: Block) -> None:
        place = self.shell.folder / block.info
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("\n".join(block.lines) + "\n", encoding="utf-8")

    def _console(self, block: Block, done: Played) -> None:
        content: list[str] = []
        for step in block.commands:
            text = masks.renamed(step.text, done.names)
            kind, name = block.note
            printed = self.answer(name).split("\n") if kind == "answer" else self.shell.run(text)
            done.names |= masks.names(step.shown, printed)
            if masks.pairs(step.shown, printed) is None:
                where = f"{self.page.name}:{block.first + 1}: $ {text}"
                done.problems.append(f"{where}\n{masks.difference(step.shown, printed)}")
            if self.afresh:
                content += [f"$ {text}", *masks.elided(step.shown, printed)]
            else:
                content += [f"$ {step.text}", *masks.recorded(step.shown, printed, done.names)]
        done.blocks[block] = content
