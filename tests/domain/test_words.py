"""One word per idea, one idea per word: what the glossary says of names in the code."""

from __future__ import annotations

import ast
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "tallyman"
GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"
RETIRED = "tell|told|teller|telling|settle|settled|settling|settlement|staging|morphism"
ONLY_IN = {
    "stage|stages|staged": r"engine/|domain/account/ledger\.py",
    "iceberg": r"engine/warehouse/|control/publish/|registry/version/|domain/version/",
}
"""Words of one room: where they may be part of a name."""


def names(file: Path) -> Iterator[str]:
    with file.open("rb") as lines:
        for token in tokenize.tokenize(lines.readline):
            if token.type == tokenize.NAME:
                yield token.string


def uses(words: str) -> dict[str, set[str]]:
    """Files by the names in them that contain one of the words."""
    split = re.compile(rf"(^|_)({words})(_|$)")
    found = defaultdict(set)
    for file in SOURCE.rglob("*.py"):
        for name in set(names(file)):
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


def test_no_two_classes_share_a_name() -> None:
    found = defaultdict(list)
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(file.relative_to(SOURCE)))
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
