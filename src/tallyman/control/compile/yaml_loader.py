"""YAML as written: texts, lists and mappings with their line numbers. No type is guessed.

YAML 1.1 reads `on` as true, `1.10` as 1.1 and `2026-01-31` as a date. Here a text stays a text, and
the code that needs a number or a truth value converts it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import yaml

from tallyman.domain.compiled.piece import Json, YamlList, YamlMapping, YamlText
from tallyman.errors import Problem
from tallyman.errors.wording import first_line

LARGEST = 100_000
"""The most values in one file after its aliases are expanded: nine lines of YAML can make
billions."""


SCALAR, LIST, MAPPING = (f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))


class Unreadable(Exception):
    """The file is not YAML, or its aliases may not be expanded."""

    def __init__(self, line: int | None, message: str) -> None:
        super().__init__(message)
        self.line, self.message = line, message


def read(file: str, content: bytes) -> tuple[Json, list[Problem]]:
    """Read the document of a file: None if it is empty or broken. Also return its problems."""
    try:
        root = _composed(content)
        reader = _YamlReader(file)
        return (None if root is None else reader.node(root), reader.problems)
    except Unreadable as error:
        where = file if error.line is None else f"{file}:{error.line}"
        return None, [Problem(where, error.message, file=file, line=error.line)]
    except RecursionError:
        return None, [Problem(file, "it is nested too deeply to be read", file=file)]


def _composed(content: bytes) -> yaml.Node | None:
    try:
        text = content.decode("utf-8")
        loader = yaml.BaseLoader(text)  # reads texts, lists and mappings only
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
    hint = (
        '; quote a value that begins with {{, as in "{{NAME}}"' if "{{" in "".join(written) else ""
    )
    return Unreadable(line + 1, f"it is not valid YAML: {error.problem}{hint}")


@dataclass
class _YamlReader:
    """Converts each node of the document once, however often an alias names it."""

    file: str
    problems: list[Problem] = field(default_factory=list)
    _made: dict[int, tuple[Json, int]] = field(default_factory=dict)
    _open: set[int] = field(default_factory=set)

    def node(self, given: yaml.Node) -> Json:
        return self._sized(given)[0]

    def _sized(self, given: yaml.Node) -> tuple[Json, int]:
        """Return the node and the number of values in it."""
        line = given.start_mark.line + 1
        if id(given) in self._open:
            raise Unreadable(line, "an alias refers to a value that contains it")
        if id(given) not in self._made:
            self._open.add(id(given))
            made, size = self._make(given, line)
            if size > LARGEST:
                message = f"more than {LARGEST:,} values when its aliases are expanded"
                raise Unreadable(line, message)
            self._made[id(given)] = made, size
            self._open.remove(id(given))
        return self._made[id(given)]

    def _make(self, given: yaml.Node, line: int) -> tuple[Json, int]:
        if given.tag not in (SCALAR, LIST, MAPPING):
            self._fail(
                line, f"tags such as {given.tag!r} are not supported: write the value itself"
            )
        if isinstance(given, yaml.ScalarNode):
            return YamlText.of(_text(given), line, plain=given.style is None), 1
        if selector := _unquoted_selector(given):
            return YamlText.of(selector, line), 1
        if isinstance(given, yaml.MappingNode):
            return self._mapped(given, line)
        children = [self._sized(child) for child in given.value]
        made = YamlList(node for node, _ in children)
        made.line = line
        return made, 1 + sum(n for _, n in children)

    def _mapped(self, given: yaml.MappingNode, line: int) -> tuple[YamlMapping, int]:
        made, size = YamlMapping(), 1
        made.line, made.flow = line, bool(given.flow_style)
        for key_node, value_node in given.value:
            key, _ = self._sized(key_node)
            value, values = self._sized(value_node)
            size += 1 + values
            if not isinstance(key, YamlText):
                self._fail(key.line, "a key must be a text, not a list or a mapping")
            elif key in made:
                first = next(each for each in made if each == key).line  # type: ignore[attr-defined]
                self._fail(key.line, f"duplicate key {str(key)!r}, first used in line {first}")
            else:
                made[key] = value
        return made, size

    def _fail(self, line: int, message: str) -> None:
        where = f"{self.file}:{line}"
        self.problems.append(Problem(where, message, file=self.file, line=line))


def _text(given: yaml.ScalarNode) -> str:
    # YAML ends a block (| or >) with a line break that is not part of the text.
    return str(given.value).rstrip("\n") if given.style in ("|", ">") else str(given.value)


def _unquoted_selector(given: yaml.Node) -> str | None:
    """Recognize `{{NAME}}` without quotes: YAML reads it as a mapping whose key is a mapping."""
    names: list[str] = []
    while isinstance(given, yaml.MappingNode) and len(given.value) == 1 and given.flow_style:
        key, value = given.value[0]
        if not isinstance(value, yaml.ScalarNode) or value.value:
            return None
        names.append(str(key.value))
        given = key
    inner = isinstance(given, yaml.ScalarNode) and len(names) == 2
    return "{{" + names[1] + "}}" if inner else None
