"""Every block of the pages is run, or is on a list here: none is left out silently."""

from __future__ import annotations

import ast
import textwrap

import pytest

from tests.docs import test_other_guides, test_walkthrough
from tests.docs.page import ROOT, Block, Page, pages

RUN_ELSEWHERE = {("README.md", "answer", "demo")}
NOT_EXECUTED = {
    (
        "docs/guides/history.md",
        "not executed",
        "two terminals at once; tests/orchestration/test_cancel.py does it",
    ),
    (
        "docs/guides/workers.md",
        "not executed",
        "it goes on until Ctrl-C; tests/operate/test_server.py does it",
    ),
}
SHELL = {
    "README.md": [
        "make demo     # sets everything up, makes these 349,660 records and runs the pipeline",
        "make test     # sets everything up and tries every promise, in minutes",
    ],
}
"""What is for a terminal and not run by the tests: it has no output that could be wrong."""
FRAGMENTS = ("README.md", "docs/guides/why.md", "docs/guides/testing.md")
"""Pages that show Python which is no file of a project: the README an asset of the demo, the guide
to testing examples that `tests/testing/test_guide.py` runs."""


@pytest.fixture(params=pages(), ids=lambda page: page.name)
def page(request: pytest.FixtureRequest) -> Page:
    return request.param


def blocks(page: Page, *languages: str) -> list[Block]:
    return [block for block in page.blocks if block.language in languages]


def test_every_page_is_run() -> None:
    run = {*test_walkthrough.GUIDES, *test_other_guides.GUIDES}
    with_commands = {p.path.stem for p in pages() if blocks(p, "console")}
    assert with_commands == {*run, "README"}


def test_blocks_that_are_not_run_here_are_listed() -> None:
    noted = {(p.name, *block.note) for p in pages() for block in p.blocks if block.note[0]}
    assert noted == RUN_ELSEWHERE | NOT_EXECUTED


def test_shell_blocks_are_listed_and_have_no_output() -> None:
    found = {p.name: [line for b in blocks(p, "sh", "bash") for line in b.lines] for p in pages()}
    assert {name: lines for name, lines in found.items() if lines} == SHELL


def test_every_block_says_what_it_is(page: Page) -> None:
    unnamed = [block.first for block in page.blocks if not block.language]
    assert not unnamed, f"blocks without a language after lines {unnamed}"
    commands = [b for b in page.blocks if b.language != "console" and "$ tallyman" in str(b.lines)]
    assert not commands, "commands that are not in a console block would not be run"


def test_a_console_block_begins_with_a_command() -> None:
    found = [(page.name, block) for page in pages() for block in blocks(page, "console")]
    assert len(found) > 100
    for name, block in found:
        assert block.commands, f"{name}:{block.first}"


def test_what_could_be_a_file_is_one(page: Page) -> None:
    nameless = [b for b in blocks(page, "python", "yaml", "csv", "json") if not b.info]
    assert not nameless or page.name in FRAGMENTS


def test_python_in_the_pages_can_be_read() -> None:
    found = [block for page in pages() for block in blocks(page, "python")]
    assert len(found) > 20
    for block in found:
        ast.parse(textwrap.dedent("\n".join(block.lines)))


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 110
