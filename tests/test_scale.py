"""The forms of the suite: what a page links is tried in each, and the wide one tries all."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.world.scale import WIDE, left_out

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\((?:\.\./)*(tests/[\w/.]+?)/?(?:#[\w-]+)?\)")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "docs" / "guides").glob("*.md"))
Definition = ast.FunctionDef | ast.ClassDef | ast.Module


def is_wide(found: Definition) -> bool:
    """True if the decorators, or the `pytestmark` of a module, have the marker."""
    if isinstance(found, ast.Module):
        marks = [
            one.value
            for one in found.body
            if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "pytestmark"
        ]
    else:
        marks = found.decorator_list
    # A marker of one case, in the list of a parametrization, leaves the test in the default form.
    return any(ast.unparse(mark).startswith("pytest.mark.wide") for mark in marks)


def marks_in(file: Path) -> dict[str, bool]:
    """Return whether each test of a file is wide."""

    def walk(found: Definition, wide: bool) -> Iterator[tuple[str, bool]]:
        wide = wide or is_wide(found)
        for one in found.body:
            if isinstance(one, ast.ClassDef):
                yield from walk(one, wide)
            elif isinstance(one, ast.FunctionDef) and one.name.startswith("test_"):
                yield one.name, wide or is_wide(one)

    return dict(walk(ast.parse(file.read_text()), False))


def linked() -> dict[str, set[str]]:
    """Return the files and folders of tests that pages link, with the pages."""
    found: dict[str, set[str]] = {}
    for page in PAGES:
        for path in LINK.findall(page.read_text()):
            found.setdefault(path, set()).add(page.name)
    return found


def test_what_a_page_links_is_tried_in_the_default_form() -> None:
    pages = linked()
    assert len(pages) > 50
    for path, names in pages.items():
        place = ROOT / path
        files = [place] if place.is_file() else sorted(place.glob("test_*.py"))
        known = {test: wide for file in files for test, wide in marks_in(file).items()}
        assert not known or not all(known.values()), f"{path} is all wide, linked by {names}"


def test_the_default_form_leaves_out_what_is_marked_and_the_wide_form_nothing(
    request: pytest.FixtureRequest,
) -> None:
    items = [item for item in request.session.items if "test_scale" in item.nodeid]
    assert items
    items[0].add_marker(pytest.mark.wide)
    try:
        assert left_out(items, wide=False) == items[:1]
        assert left_out(items, wide=True) == []
    finally:
        items[0].own_markers.pop()


def test_every_marked_test_is_in_the_wide_form_and_in_no_other(
    request: pytest.FixtureRequest,
) -> None:
    """Of the files that this session collected whole."""
    given = request.config.option
    if given.keyword or given.markexpr or any("::" in word for word in request.config.args):
        pytest.skip("this session has chosen among the tests of a file")
    there: dict[Path, set[str]] = {}
    for item in request.session.items:
        there.setdefault(item.path, set()).add(item.name.partition("[")[0])
    if len(there) > 100:  # a whole suite
        assert any(wide for file in there for wide in marks_in(file).values())
    for file, names in there.items():
        marked = {test for test, wide in marks_in(file).items() if wide}
        assert marked & names == (marked if WIDE else set()), file
