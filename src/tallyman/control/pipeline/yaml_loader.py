"""YAML as it was written: texts, lists and mappings with their lines. Nothing is guessed.

YAML 1.1 reads `on` as true, `1.10` as 1.1 and `2026-01-31` as a date. Here a text is the text
that was written, and whoever needs a number or a truth value says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import yaml

from tallyman.errors import Problem
from tallyman.errors.wording import first_line

LARGEST = 100_000
"""Values in one file, after its aliases are unfolded: nine lines of YAML can make billions."""


@dataclass(frozen=True, slots=True)
class YamlText:
    line: int
    text: str
    plain: bool
    """Not quoted: only then may it be a number, true, false or nothing."""


@dataclass(frozen=True, slots=True)
class Items:
    line: int
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Mapped:
    line: int
    entries: tuple[tuple[YamlText, Node], ...]
    flow: bool
    """Written as {…}, where a comma ends a value."""


Node: TypeAlias = YamlText | Items | Mapped

SCALAR, LIST, MAPPING = (f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))


class Unreadable(Exception):
    """The file is no YAML, or not one that may be unfolded."""

    def __init__(self, line: int | None, message: str) -> None:
        super().__init__(message)
        self.line, self.message = line, message


def read(file: str, content: bytes) -> tuple[Node | None, list[Problem]]:
    """The one document of a file, None if it is empty or broken, and what is wrong with it."""
    try:
        root = _composed(content)
        reader = _YamlReader(file)
        return (None if root is None else reader.node(root), reader.problems)
    except Unreadable as error:
        where = file if error.line is None else f"{file}:{error.line}"
        return None, [Problem(where, error.message)]
    except RecursionError:
        return None, [Problem(file, "it is nested too deeply to be read")]


def _composed(content: bytes) -> yaml.Node | None:
    try:
        text = content.decode("utf-8")
        loader = yaml.BaseLoader(text)  # knows texts, lists and mappings, and no other type
    except UnicodeDecodeError as error:
        raise Unreadable(None, f"it is not UTF-8: byte {error.start + 1}") from None
    except yaml.YAMLError as error:
        raise _unreadable(error, "") from None
    try:
        return loader.get_single_node()
    except yaml.YAMLError as error:
        raise _unreadable(error, text) from None
    finally:
        loader.dispose()


def _unreadable(error: yaml.YAMLError, text: str) -> Unreadable:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return Unreadable(None, f"it is not valid YAML: {first_line(error)}")
    line = error.problem_mark.line
    written = text.splitlines()[line : line + 1]
    hint = '; quote what begins with {{, as in "{{NAME}}"' if "{{" in "".join(written) else ""
    return Unreadable(line + 1, f"it is not valid YAML: {error.problem}{hint}")


@dataclass
class _YamlReader:
    """Makes each node of the document once, however often an alias names it."""

    file: str
    problems: list[Problem] = field(default_factory=list)
    _made: dict[int, tuple[Node, int]] = field(default_factory=dict)
    _open: set[int] = field(default_factory=set)

    def node(self, given: yaml.Node) -> Node:
        return self._sized(given)[0]

    def _sized(self, given: yaml.Node) -> tuple[Node, int]:
        """The node, and how many values it has in it."""
        line = given.start_mark.line + 1
        if id(given) in self._open:
            raise Unreadable(line, "an alias stands for something that it is a part of")
        if id(given) not in self._made:
            self._open.add(id(given))
            made, size = self._make(given, line)
            if size > LARGEST:
                message = f"more than {LARGEST:,} values when its aliases are unfolded"
                raise Unreadable(line, message)
            self._made[id(given)] = made, size
            self._open.remove(id(given))
        return self._made[id(given)]

    def _make(self, given: yaml.Node, line: int) -> tuple[Node, int]:
        if given.tag not in (SCALAR, LIST, MAPPING):
            self._fail(line, f"tags such as {given.tag!r} are not read: write the value itself")
        if isinstance(given, yaml.ScalarNode):
            return YamlText(line, _text(given), given.style is None), 1
        if selector := _unquoted_selector(given):
            return YamlText(line, selector, False), 1
        if isinstance(given, yaml.MappingNode):
            return self._mapped(given, line)
        children = [self._sized(child) for child in given.value]
        return Items(line, tuple(node for node, _ in children)), 1 + sum(n for _, n in children)

    def _mapped(self, given: yaml.MappingNode, line: int) -> tuple[Mapped, int]:
        entries: dict[str, tuple[YamlText, Node]] = {}
        size = 1
        for key_node, value_node in given.value:
            key, _ = self._sized(key_node)
            value, values = self._sized(value_node)
            size += 1 + values
            if not isinstance(key, YamlText):
                self._fail(key.line, "a key is a text, not a list or a mapping")
            elif key.text in entries:
                first = entries[key.text][0].line
                self._fail(key.line, f"the key {key.text!r} is there already, in line {first}")
            else:
                entries[key.text] = key, value
        return Mapped(line, tuple(entries.values()), bool(given.flow_style)), size

    def _fail(self, line: int, message: str) -> None:
        self.problems.append(Problem(f"{self.file}:{line}", message))


def _text(given: yaml.ScalarNode) -> str:
    # A block (| or >) ends with a line break that nobody wrote as part of the text.
    return str(given.value).rstrip("\n") if given.style in ("|", ">") else str(given.value)


def _unquoted_selector(given: yaml.Node) -> str | None:
    """`{{NAME}}` without quotes is, to YAML, a mapping whose key is a mapping."""
    names: list[str] = []
    while isinstance(given, yaml.MappingNode) and len(given.value) == 1 and given.flow_style:
        key, value = given.value[0]
        if not isinstance(value, yaml.ScalarNode) or value.value:
            return None
        names.append(str(key.value))
        given = key
    inner = isinstance(given, yaml.ScalarNode) and len(names) == 2
    return "{{" + names[1] + "}}" if inner else None
