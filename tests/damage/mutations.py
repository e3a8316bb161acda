"""One file, or two, changed at random, and put back afterwards."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

KINDS = ("bit", "bit", "bit", "byte", "truncated", "appended", "deleted", "swapped")
"""The flipped bit is what disks do: it is as frequent as three of the others."""


@dataclass(frozen=True)
class Mutation:
    """What was done to which files. `in_place`: a file with two names is changed under both."""

    kind: str
    detail: str
    paths: tuple[Path, ...]
    in_place: bool

    def __str__(self) -> str:
        return f"{self.kind} {self.detail} {', '.join(map(str, self.paths))}"


@dataclass
class Mutator:
    """`aside` is a folder on the same disk where files that are taken away wait."""

    dice: random.Random
    aside: Path
    _later: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @contextmanager
    def mutated(self, path: Path, others: Sequence[Path]) -> Iterator[Mutation]:
        """`others` are files that it may change places with."""
        content = path.read_bytes()
        kind = self.dice.choice(KINDS) if content else "appended"
        if kind == "deleted":
            moves = [(path, self.aside / "deleted")]
            done = Mutation(kind, "", (path,), in_place=False)
        elif kind == "swapped":
            differing = [other for other in others if other.read_bytes() != content]
            other, between = self.dice.choice(differing), self.aside / "swapped"
            moves = [(path, between), (other, path), (between, other)]
            done = Mutation(kind, "", (path, other), in_place=False)
        else:
            with self._rewritten(path, content, kind) as done:
                yield done
            return
        for source, target in moves:
            os.rename(source, target)
        try:
            yield done
        finally:
            for source, target in reversed(moves):
                os.rename(target, source)

    @contextmanager
    def _rewritten(self, path: Path, before: bytes, kind: str) -> Iterator[Mutation]:
        after, detail = self._changed(before, kind)
        assert after != before
        self._put(path, after)
        try:
            yield Mutation(kind, detail, (path,), in_place=True)
        finally:
            self._put(path, before)

    def _changed(self, content: bytes, kind: str) -> tuple[bytes, str]:
        if kind == "appended":
            more = self.dice.randbytes(self.dice.randrange(1, 40))
            return content + more, f"{len(more)} bytes"
        at = self.dice.randrange(len(content))
        if kind == "truncated":
            return content[:at], f"to {at} of {len(content)}"
        changed = bytearray(content)
        changed[at] ^= 1 << self.dice.randrange(8) if kind == "bit" else self.dice.randrange(1, 256)
        return bytes(changed), f"byte {at} is {changed[at]:#04x}, was {content[at]:#04x}"

    def _put(self, path: Path, content: bytes) -> None:
        """In place. The clock of a file system may be too coarse to tell it from the last write."""
        with open(path, "r+b") as file:
            file.write(content)
            file.truncate()
        found = path.stat()
        later = found.st_mtime_ns + 1_000_000_000 * next(self._later)
        os.utime(path, ns=(found.st_atime_ns, later))
