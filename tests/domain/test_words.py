"""Words in the code: one word per idea in names, and plain English in prose."""

from __future__ import annotations

import ast
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "tallyman"
GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"
RETIRED = "tell|told|teller|telling|settle|settled|settling|settlement|staging|morphism|desk|shelf"
ONLY_IN = {
    "stage|stages|staged": r"engine/|domain/account/ledger\.py",
    "iceberg": r"engine/warehouse/|control/publish/|registry/version/|domain/version/",
}
"""Words of one room: where they may be part of a name."""
RETIRED_IN_PROSE = (
    r"anew|mend(s|ed|ing)?|for ever|dear(er|ly)?|bears?|borne|aside|beside|sought|tells?|told"
)
"""The plain words are: again, fix, forever, expensive, tolerate, separately, next to, report."""
KINDS = (tokenize.NAME, tokenize.COMMENT)
RIDDLES = "What|Whether|Which|Who|How|As|Of|By|From|Or"
"""A function's docstring opens with a verb or "True if", not with one of these."""


@cache
def tokens(file: Path) -> list[tokenize.TokenInfo]:
    with file.open("rb") as lines:
        return [t for t in tokenize.tokenize(lines.readline) if t.type in KINDS]


@cache
def names(file: Path) -> set[str]:
    return {token.string for token in tokens(file) if token.type == tokenize.NAME}


def uses(words: str) -> dict[str, set[str]]:
    """Files by the names in them that contain one of the words."""
    split = re.compile(rf"(^|_)({words})(_|$)")
    found = defaultdict(set)
    for file in SOURCE.rglob("*.py"):
        for name in names(file):
            if split.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()):
                found[str(file.relative_to(SOURCE))].add(name)
    return found


def test_retired_words_are_in_no_name() -> None:
    assert uses(RETIRED) == {}


@pytest.mark.parametrize("words", ONLY_IN)
def test_words_of_one_room_stay_there(words: str) -> None:
    found = uses(words)
    assert found
    assert {file: n for file, n in found.items() if not re.match(ONLY_IN[words], file)} == {}


@cache
def sources() -> list[tuple[str, ast.Module]]:
    files = sorted(SOURCE.rglob("*.py"))
    return [(str(file.relative_to(SOURCE)), ast.parse(file.read_text())) for file in files]


def strings(tree: ast.Module, *, messages: bool) -> Iterator[tuple[int, str]]:
    """Yield docstrings, also of attributes; with `messages`, every other string too."""
    for node in ast.walk(tree):
        stands_alone = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        text = node.value if stands_alone else node if messages else None
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            yield text.lineno, text.value


def comments(file: Path) -> Iterator[tuple[int, str]]:
    for token in tokens(file):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def prose() -> Iterator[tuple[str, str]]:
    """Yield docstrings and comments of all files, and messages of errors, without code in them."""
    for name, tree in sources():
        found = strings(tree, messages=name.startswith("errors/"))
        for line, text in (*found, *comments(SOURCE / name)):
            yield f"{name}:{line}", re.sub(r"`[^`]*`", "", text)


def test_retired_words_are_in_no_docstring_comment_or_error() -> None:
    word = re.compile(rf"\b({RETIRED_IN_PROSE})\b", re.I)
    texts = list(prose())
    assert len(texts) > 2000
    assert [f"{place} {met[0]}" for place, text in texts if (met := word.search(text))] == []


def test_docstrings_of_functions_open_with_a_verb() -> None:
    riddle = re.compile(rf"({RIDDLES})\b")
    opened = {
        f"{name}:{node.lineno}": found
        for name, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and (found := ast.get_docstring(node))
    }
    assert len(opened) > 1000
    assert {place: text for place, text in opened.items() if riddle.match(text)} == {}


def test_no_two_classes_share_a_name() -> None:
    found = defaultdict(list)
    for name, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(name)
    assert {name: files for name, files in found.items() if len(files) > 1} == {}


def test_the_glossary_explains_each_word_once() -> None:
    explained, _, _ = GLOSSARY.read_text().partition("## The house")
    rows = re.findall(r"^\| ([^|`]+?) \|", explained, re.M)
    words = [word for row in rows for word in row.split(", ") if word != "word"]
    assert len(words) > 100
    assert len(words) == len(set(words))


def test_the_glossary_knows_every_room() -> None:
    text = GLOSSARY.read_text()
    rooms = {path.parent.name for path in SOURCE.glob("*/*/__init__.py")}
    assert {room for room in rooms if not re.search(rf"\b{room}\b", text)} == set()
