"""What else decides about a publication: a table that is read, a person, an older database."""

from __future__ import annotations

import json

from tests.publication.conftest import THREE, ThreeHome
from tests.world.home import statuses

READS_TABLE = """\
import tallyman as tm

person = tm.table("person", schema="name string not null, age int", key="name")


@tm.asset(key="name")
def grown_up(person):
    return person.filter("age >= 18", reason="young")
"""
ASKS = (
    THREE.partition('\n\n@tm.asset(key="id")\ndef c')[0].replace(
        '@tm.asset(key="id")\ndef b',
        '@tm.asset(key="id", approval=tm.approval("large", when="max(n) > 100"))\ndef b',
    )
    + "\n"
)


def mutate(home: ThreeHome, *statements: dict[str, object]) -> None:
    (home.path / "change.json").write_text(json.dumps({"statements": list(statements)}))
    home.ok("mutate", "change.json")


def test_a_table_is_an_input_like_any_other(home: ThreeHome) -> None:
    home.pipeline(READS_TABLE)
    assert home.refused("run") == "dependency_not_ready"
    people = [{"name": "Ann", "age": 30}, {"name": "Bob", "age": 10}]
    mutate(home, {"insert": {"into": "person", "rows": people}})
    assert home.ok("run")["published"] == {"grown_up": 1}
    assert home.outside("grown_up") == [("Ann", 30)]
    assert statuses(home.ok("run")) == {"grown_up": "skipped"}
    mutate(home, {"update": {"dataset": "person", "set": {"age": 18}, "where": "name = 'Bob'"}})
    again = home.ok("run")
    assert (statuses(again), again["published"]) == ({"grown_up": "success"}, {"grown_up": 2})
    assert home.rows("grown_up") == home.outside("grown_up") == [("Ann", 30), ("Bob", 18)]
    assert statuses(home.ok("run")) == {"grown_up": "skipped"}


def test_a_result_that_waits_is_published_by_the_decision_itself(home: ThreeHome) -> None:
    home.pipeline(ASKS).numbers(1)
    home.ok("run")
    old, heads = [("1", 2)], {"a": 1, "b": 1}

    home.numbers(200)
    waiting = home.tallyman("run", "--run-id", "no")
    assert (waiting.code, waiting.json["status"]) == (1, "waiting_approval")
    home.ok("cleanup", "--older-than", "0s", "--confirm")  # spares what waits
    assert (home.heads(), home.rows("b"), home.outside("b")) == (heads, old, old)
    home.ok("reject", "no", "b", "--reason", "too large")
    assert (home.heads(), home.outside("b"), home.status("no")) == (heads, old, "failed")

    assert home.tallyman("resume", "no").json["status"] == "waiting_approval"
    assert (home.heads(), home.outside("b")) == (heads, old)
    home.ok("approve", "no", "b", TALLYMAN_ACTOR="ann")
    assert home.heads() == {"a": 2, "b": 2}
    assert home.rows("b") == home.outside("b") == [("200", 400)]
    commit, _ = home.ok("commits")
    assert (commit["actor"], commit["versions"]) == ("ann", {"a": 2, "b": 2})
    assert home.ok("show", "no")["status"] == "success"
    # The rejected result goes, the approved one and its run stay whole.
    home.ok("cleanup", "--older-than", "0s", "--confirm")
    assert home.ok("verify", "no")["balanced"]
    assert home.damaged() == []
