"""An expectation warns, rejects, or stops the asset, as its author says."""

from __future__ import annotations

import pytest

from tests.world.home import Home
from tests.world.homes import Homes

PIPELINE = """\
import tallyman as tm

tm.source("raw", "data/raw.jsonl", schema="id string, kind string, n int", key="id")
ANY = dict(thresholds=dict(absolute=0, percentage=1))


@tm.asset(key="id", **ANY)
def warned(raw):
    return (
        raw.filter("kind <> 'c'")
        .expect("small", "n < 3", severity="warn")
        .expect("positive", "n > 0")
        .expect("even", "n % 2 = 0", severity="warn")
    )


@tm.asset(key="kind", **ANY)
def groups(raw):
    return raw.groupBy("kind").agg(n="sum(n)").expect("few", "n < 5", severity="warn")


@tm.asset(key="id", **ANY)
def strict(raw):
    return raw.expect("positive", "n > 0", severity="fail")


@tm.asset(key="id", **ANY)
def strict_and_good(raw):
    return raw.expect("known", "n IS NOT NULL", severity="fail")
"""
IN_YAML = """\
assets:
  of_yaml:
    from: raw
    key: id
    steps:
      - expect: {rule: small, that: n < 3, severity: warn}
"""
ROWS = (
    {"id": "a", "kind": "a", "n": 1},
    {"id": "b", "kind": "a", "n": 4},
    {"id": "c", "kind": "b", "n": -1},
    {"id": "d", "kind": "b", "n": 7},
    {"id": "e", "kind": "c", "n": 9},
)


@pytest.fixture(scope="module")
def home(homes: Homes) -> Home:
    made = homes.make(Home, "severity").pipeline(PIPELINE).data("raw.jsonl", *ROWS)
    (made.path / "pipelines" / "y.yaml").write_text(IN_YAML)
    return made


def warnings(made: dict[str, object]) -> list[tuple[object, ...]]:
    return [(w["rule"], w["count"], w["example"]) for w in made.get("warnings", ())]  # type: ignore[attr-defined]


def test_rows_that_break_a_warning_go_on_and_are_counted(home: Home) -> None:
    [made] = home.ok("run", "warned", "--run-id", "warned")["assets"]
    assert made["fates"]["PASSED"] == 3
    assert made["rejections"] == 1
    # Records that were filtered or rejected before are not asked.
    assert warnings(made) == [("small", 2, "b"), ("even", 2, "a")]
    assert [row["id"] for row in home.ok("read", "warned")] == ["a", "b", "d"]
    [shown] = home.ok("show", "warned")["assets"]
    assert warnings(shown) == warnings(made)
    assert home.ok("verify", "warned", "--exact")["balanced"]
    assert home.ok("reproduce", "warned")["verdict"] == "REPRODUCED"


def test_groups_and_yaml_warn_too_and_the_terminal_shows_it(home: Home) -> None:
    [made] = home.ok("run", "groups")["assets"]
    assert [(rule, count) for rule, count, _ in warnings(made)] == [("few", 3)]
    reply = home.printed("run", "of_yaml")
    assert reply.code == 0
    assert "warning: of_yaml: 3 record(s) break small (n < 3), such as b" in reply.stderr


def test_one_record_that_breaks_a_rule_of_severity_fail_stops_the_asset(home: Home) -> None:
    reply = home.tallyman("run", "strict", "strict_and_good", "--run-id", "strict")
    assert reply.code == 3, str(reply)
    strict, good = reply.json["assets"]
    assert (strict["status"], good["status"]) == ("halted", "success")
    assert strict["error"]["code"] == "rule_broken"
    assert "1 rejection by strict.positive (n > 0), which allows none" in strict["error"]["message"]
    assert home.heads()["strict"] == 0
    [letter] = home.ok("rejections", "show", "strict", "--asset", "strict")["rejections"]
    assert letter["source_key"] == "c"
