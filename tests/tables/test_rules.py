"""Rules of a publication that only show when somebody else was there in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

import pytest

import tallyman as tm
from tallyman.control.publish.commit import publish
from tallyman.domain.pipeline.pipeline_version import PipelineVersion
from tallyman.domain.version.commit import Change, Commit, Operation, Publication
from tallyman.domain.version.dataset import Fragment
from tallyman.errors import PlanOutdated, VersionConflict
from tallyman.registry.database import Database, Transaction
from tallyman.registry.run.pipelines import Pipelines
from tallyman.registry.version.fragments import Fragments
from tests.tables.conftest import Tables, person
from tests.tables.test_publishers import OWNER, Stand


@pytest.fixture
def stand(empty_database: Callable[[], str], tmp_path: Path) -> Stand:
    found = Stand(empty_database(), tmp_path)
    found.make(["d0"])
    return found


def published(stand: Stand, database: Database, **given: object) -> Commit | None:
    """Of the only dataset; `given` is what is special about the change or the publication."""
    fields = set(Publication.__dataclass_fields__)
    change = Change(
        dataset_id=stand.datasets["d0"].id,
        **{"operation": Operation.APPEND, **{k: v for k, v in given.items() if k not in fields}},
    )
    own = {k: v for k, v in given.items() if k in fields}
    asked = Publication(
        **{"key": uuid4(), "kind": "run", "actor": "ann", "owner": OWNER, **own},
        changes=(change,),
    )
    return database.durably(lambda tx: publish(tx, stand.warehouse, asked))


def staged(stand: Stand, database: Database, n: int, partition: str | None = None) -> Fragment:
    made = replace(stand._state(stand.datasets["d0"], n), partition=partition)

    def work(tx: Transaction) -> None:
        Fragments(tx).open(made, None)
        Fragments(tx).prepare(made, None)

    database.durably(work)
    return made


def test_what_was_left_out_because_it_was_there_must_still_be_there(stand: Stand) -> None:
    database = stand.database()
    first = staged(stand, database, 7)
    published(stand, database, adds=(first,), scopes=frozenset({None}), read_at=1)
    # A run reads version 2, finds its rows there and makes nothing; meanwhile they are taken back.
    nothing = replace(first, id=uuid4(), files=())
    taken = frozenset({first.id})
    published(stand, database, operation=Operation.MUTATE, removes=taken, expected=2)
    with pytest.raises(VersionConflict):
        published(stand, database, adds=(nothing,), scopes=frozenset({None}), read_at=2)
    database.close()


def test_what_a_run_appended_before_is_not_in_its_own_way(stand: Stand) -> None:
    database = stand.database()
    one, two = staged(stand, database, 7, "a"), staged(stand, database, 8, "b")
    both = {"scopes": frozenset({"a", "b"}), "read_at": 1}
    published(stand, database, adds=(one,), scopes=frozenset({"a"}), read_at=1)
    made = published(stand, database, adds=(one, two), **both)
    assert made is not None
    assert [(move.ordinal, move.rows) for move in made.moves] == [(3, 3)]
    database.close()


def test_an_older_run_that_ends_late_does_not_move_the_pipeline_back(stand: Stand) -> None:
    database = stand.database()
    database.durably(lambda tx: Pipelines(tx).place(OWNER, "home", "warehouse"))
    for version in ("old", "new"):
        database.durably(
            lambda tx, v=version: Pipelines(tx).add(OWNER, PipelineVersion(hash=v, plan="{}"))
        )
    scope = frozenset({None})
    given = {"scopes": scope, "read_at": 1, "adds": (staged(stand, database, 7),)}
    published(stand, database, pipeline_version="old", **given)
    given = {"scopes": scope, "read_at": 2, "adds": (staged(stand, database, 8),)}
    published(stand, database, pipeline_version="new", pipeline_before="old", **given)
    given = {"scopes": scope, "read_at": 3, "adds": (staged(stand, database, 9),)}
    late = published(stand, database, pipeline_version="old", pipeline_before="old", **given)
    assert late is not None
    assert late.pipeline_version is None
    active = database.durably(lambda tx: Pipelines(tx).active(OWNER))
    assert active is not None
    assert active[0] == "new"
    plan = {"kind": "apply", "pipeline_version": "old", "details": {"plan": str(UUID(int=1))}}
    with pytest.raises(PlanOutdated):
        published(stand, database, operation=Operation.REPLACE, pipeline_before="old", **plan)
    database.close()


def test_nobody_changes_what_another_project_produces(
    home: Tables, project: tm.Project, new_home: Callable[..., Tables]
) -> None:
    home.ok("mutate", home.file(person("Eve", 7)))
    other = new_home(name="rival", database=project.database.url())
    for words in (
        ("rename", "person", "people"),
        ("hide", "person"),
        ("purge", "person", "1", "--confirm"),
        ("rollback", "person", "--to", "1"),
    ):
        reply = other.tallyman(*words)
        assert (reply.code, reply.json["error"]["code"]) == (4, "single_producer"), words
    assert project.resolve("person").dataset.published


def test_odd_input_is_refused_before_anything_happens(home: Tables, project: tm.Project) -> None:
    odd = home.path / "odd.json"
    odd.write_text('{"statements": [], "message": "a\\u0000b"}')
    assert home.tallyman("mutate", str(odd)).json["error"]["code"] == "invalid_mutation"
    assert home.ok("cleanup", "--older-than", "99999999999999w")["datasets"] == []
    before = project.heads()
    with (home.path / "tallyman.yaml").open("a") as settings:
        settings.write("warehouse: 5\n")
    reply = home.tallyman("versions", "person")
    assert (reply.code, reply.json["error"]["code"]) == (2, "usage_error")
    assert project.heads() == before
