"""Read a page: its console blocks, the files it shows, and the comments that steer the runner.

```console                     commands after `$ `, then what they print; `…` is any lines
```python pipelines/shop.py    a file, written before the next command
<!-- setup: command -->        a command that the reader does not see
<!-- keep: sales -->           remember the folder as it is now
<!-- from: sales -->           go on in a copy of a remembered folder
<!-- answer: demo -->          the next block was run elsewhere: compare with what it printed
<!-- not executed: why -->     the next block is only text
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_COMMENT = re.compile(r"^<!-- (setup|keep|from|answer|not executed): ?(.*)$")
_FENCE = re.compile(r"^```(\S*) ?(.*)$")
_HERE_DOCUMENT = re.compile(r"<<'?(\w+)'?")


@dataclass(frozen=True, slots=True)
class Command:
    text: str
    shown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """`first` and `last` are line numbers of its content, from 0; `last` is not included."""

    language: str
    info: str
    first: int
    last: int
    lines: tuple[str, ...]
    note: tuple[str, str] = ("", "")

    @property
    def commands(self) -> list[Command]:
        left = list(self.lines)
        found = []
        while left:
            text = _command(left)
            shown = []
            while left and not left[0].startswith("$ "):
                shown.append(left.pop(0))
            found.append(Command(text, tuple(shown)))
        return found


@dataclass(frozen=True, slots=True)
class Note:
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Page:
    path: Path
    lines: tuple[str, ...]
    parts: tuple[Block | Note, ...]

    @classmethod
    def read(cls, path: Path) -> Page:
        lines = path.read_text(encoding="utf-8").split("\n")
        return cls(path, tuple(lines), tuple(_parts(lines)))

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def blocks(self) -> list[Block]:
        return [part for part in self.parts if isinstance(part, Block)]

    @property
    def kept(self) -> set[str]:
        """Names of the folders that the page leaves to others."""
        return {p.text for p in self.parts if isinstance(p, Note) and p.kind == "keep"}


def pages() -> list[Page]:
    return [Page.read(p) for p in (ROOT / "README.md", *sorted(ROOT.glob("docs/guides/*.md")))]


def _command(left: list[str]) -> str:
    """Take one command off the lines, with the lines that continue it."""
    first = left.pop(0)
    assert first.startswith("$ "), f"a console block begins with a command, not with {first!r}"
    text = [first[2:]]
    while text[-1].endswith("\\"):
        text.append(left.pop(0))
    if here := _HERE_DOCUMENT.search(first):
        while text[-1] != here[1]:
            text.append(left.pop(0))
    return "\n".join(text)


def _parts(lines: list[str]) -> list[Block | Note]:
    found: list[Block | Note] = []
    waiting = ("", "")
    at = 0
    while at < len(lines):
        if comment := _COMMENT.match(lines[at]):
            text, at = _comment(lines, at, comment[2])
            if comment[1] in ("answer", "not executed"):
                waiting = (comment[1], text)
            else:
                found.append(Note(comment[1], text))
        elif fence := _FENCE.match(lines[at]):
            last = lines.index("```", at + 1)
            content = tuple(lines[at + 1 : last])
            found.append(Block(fence[1], fence[2], at + 1, last, content, waiting))
            waiting, at = ("", ""), last + 1
        else:
            at += 1
    return found


def _comment(lines: list[str], at: int, begun: str) -> tuple[str, int]:
    """Return the text of a comment of one or many lines, and the line after it."""
    text = [begun]
    while "-->" not in text[-1]:
        at += 1
        text.append(lines[at])
    return "\n".join(text).replace("-->", "").strip(), at + 1
