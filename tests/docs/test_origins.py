"""Each of our words on the page of origins is in the glossary or on a page of the reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "reference" / "origins.md"
_ROW = re.compile(r"^\| (.+?) \| (.+?) \| (.*?) ?\|$")


def rows() -> list[tuple[str, str, str]]:
    text = PAGE.read_text(encoding="utf-8").replace("\\|", "/")
    found = [found.groups() for line in text.splitlines() if (found := _ROW.match(line))]
    return [(a, b, c) for a, b, c in found if a not in ("theirs", "---")]


ROWS = rows()


def glossary() -> set[str]:
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    return {line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")}


def reference() -> str:
    pages = [*sorted((DOCS / "reference").glob("*.md")), DOCS / "guides" / "openlineage.md"]
    return "\n".join(page.read_text(encoding="utf-8") for page in pages if page != PAGE)


def test_every_design_has_a_table() -> None:
    assert PAGE.read_text(encoding="utf-8").count("| theirs | here | described in |") == 5
    assert len(ROWS) > 100
    assert "(reference/origins.md)" in (DOCS / "index.md").read_text(encoding="utf-8")


def test_bold_words_are_in_the_glossary() -> None:
    known = glossary()
    words = {word for _, ours, _ in ROWS for word in re.findall(r"\*\*(.+?)\*\*", ours)}
    assert len(words) > 40
    assert sorted(words - known) == []


def test_names_are_in_the_reference() -> None:
    text = reference()
    names = {name for _, ours, _ in ROWS for name in re.findall(r"`(.+?)`", ours)}
    assert len(names) > 60
    assert sorted(name for name in names if name not in text and name.split()[-1] not in text) == []


@pytest.mark.parametrize("theirs", [row[0] for row in ROWS])
def test_a_word_leads_to_a_page_or_says_why_not(theirs: str) -> None:
    [(_, ours, where)] = [row for row in ROWS if row[0] == theirs]
    links = re.findall(r"\]\(([^)#]+)", where)
    assert links or ours.startswith("not built")
    assert all((PAGE.parent / link).exists() for link in links)
