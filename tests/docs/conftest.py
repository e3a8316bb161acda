"""Pages are run once in a session; one that goes on with another's folder waits for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.acceptance.conftest import airline as airline  # the demo's run, made once for all
from tests.docs.page import pages
from tests.docs.play import Played, Player, State
from tests.docs.shell import Shell, environment
from tests.world.scale import some

RECORD = "TALLYMAN_RECORD"


def chosen(guides: Sequence[str], number: int) -> list[str]:
    """Return so many of the guides; all in the full form, and to record them."""
    return list(guides) if os.environ.get(RECORD) else some(guides, number)


class Walk:
    """All pages, and the folders that some leave to others."""

    def __init__(
        self, folder: Path, spark_server: str, give_database: Callable[[Path], Path]
    ) -> None:
        self.pages = {page.name: page for page in pages()}
        self.folder = folder
        self.answers: dict[str, str] = {}
        self.states: dict[str, State] = {}
        self._environment = environment(spark_server)
        self._give_database = give_database
        self._played: dict[str, Played] = {}

    def play(self, name: str) -> Played:
        if name not in self._played:
            root = self.folder / Path(name).stem
            root.mkdir()
            shell = Shell(root, dict(self._environment), self._give_database)
            player = Player(
                self.pages[name],
                shell,
                state=self._state,
                answer=self.answers.__getitem__,
                keep=self.states.__setitem__,
                afresh=os.environ.get(RECORD) == "all",
            )
            self._played[name] = player.play()
        return self._played[name]

    def _state(self, name: str) -> State:
        if name not in self.states:
            [keeper] = [page.name for page in self.pages.values() if name in page.kept]
            self.play(keeper)
        return self.states[name]


@pytest.fixture(scope="session")
def walk(
    tmp_path_factory: pytest.TempPathFactory,
    spark_server: str,
    with_database: Callable[[Path], Path],
) -> Walk:
    return Walk(tmp_path_factory.mktemp("pages"), spark_server, with_database)


@pytest.fixture
def check(walk: Walk) -> Callable[[str], None]:
    """check(page): it shows what its commands print; with TALLYMAN_RECORD=1 it does from now on.
    With TALLYMAN_RECORD=all its ids and times are those of this run, too."""

    def played(name: str) -> None:
        done = walk.play(name)
        if os.environ.get(RECORD):
            done.page.path.write_text(done.rewritten(), encoding="utf-8")
            return
        assert not done.problems, "\n\n".join(done.problems)

    return played
