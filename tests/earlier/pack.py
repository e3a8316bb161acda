"""Pack the runs of the code as it is now, before it changes how runs are kept:

    pytest tests/earlier/pack.py

Not part of the suite. A pack is never made again, because its code is gone.
"""

from __future__ import annotations

from tests.earlier import project
from tests.earlier.packed import HERE, pack
from tests.world.home import Home
from tests.world.homes import Homes

FILE = HERE / "digest-1.tar.xz"


def test_pack(homes: Homes) -> None:
    assert not FILE.exists(), f"{FILE.name} exists: give the new pack a name of its own"
    home = homes.make(Home, "earlier", environment={"TALLYMAN_ACTOR": "ann"})
    project.write(home.path)
    for words in project.RUNS:
        home.ok(*words)
    answers = [[list(words), home.tallyman(*words).json] for words in project.QUESTIONS]
    pack(home.path, home.project.database.url(), answers, FILE)
