"""Whatever is in the settings and in pipeline files: exit code 0 or 2, a message with the file, no
stack trace, and nothing left behind."""

from __future__ import annotations

import json
import keyword
from collections.abc import Callable
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.cases import DEFINITIONS
from tests.fuzz.conftest import SOUND, Fuzzed
from tests.world.scale import FULL

quick = settings(
    max_examples=DEFINITIONS,
    deadline=None,
    derandomize=not FULL,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
Make = Callable[..., Fuzzed]

# ---- values ---------------------------------------------------------------------------------

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.dates(), st.text(max_size=20),
    st.sampled_from(["", "null", "~", "/", "..", "a\0b", "{{x}}", "é" * 300, "runs", "local[2]"]),
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
SETTINGS = (
    "name", "pipelines", "runs", "warehouse", "master", "spark", "thresholds", "database", "trace",
    "signing_key", "keep_runs", "column_metrics", "nonsense",
)  # fmt: skip
settings_values = st.dictionaries(st.sampled_from(SETTINGS), values, max_size=4)


def written(value: Any) -> bytes:
    return yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "surrogatepass")


def checked(project: Fuzzed) -> dict[str, Any]:
    """Check without Spark, and that the two forms of the answer agree."""
    reply = project.says("check", "--no-spark", "--json")
    found: dict[str, Any] = reply.json
    assert found is not None, reply
    assert reply.code == (2 if found.get("problems") or "error" in found else 0), reply
    for problem in found.get("problems", ()):
        assert problem["message"].strip()
        assert problem["file"] is None or not problem["file"].startswith("/"), problem
    assert project.left() == set(), "check leaves nothing behind"
    return found


# ---- settings -------------------------------------------------------------------------------


@quick
@given(settings_values)
def test_settings_of_any_values(fuzzed: Make, given_values: dict[str, Any]) -> None:
    checked(fuzzed(written(given_values), p__py=SOUND.encode()))


@quick
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda t: t.encode("utf-8", "replace")))
def test_settings_of_any_bytes(fuzzed: Make, content: bytes) -> None:
    project = fuzzed(content, p__py=SOUND.encode())
    checked(project)
    project.says("ls") if not content.strip() else None


# ---- YAML -----------------------------------------------------------------------------------

KEYS = (
    "sources", "tables", "selectors", "assets", "from", "steps", "path", "format", "schema", "key",
    "options", "references", "unique", "thresholds", "evidence", "tags", "meta", "partitioned_by",
    "approval", "publish", "trace", "column", "start", "values", "filter", "expect", "join",
    "select", "groupBy", "agg", "output", "update", "orders", "kept", "lineage", "ledger.json",
)  # fmt: skip
WORDS = (
    "id int", "id", "v > 0", "json", "data/orders.jsonl", "rand() > 0.5", "orders", "kept",
    "2026-01-01", "digest", "append", "runs/x.csv", "*", "((", "'", "id int, id int",
)  # fmt: skip
yaml_values = st.recursive(
    scalars | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=14,
)


@quick
@given(st.dictionaries(st.sampled_from(KEYS[:4]), yaml_values, min_size=1, max_size=4))
def test_yaml_of_the_right_words_in_any_order(fuzzed: Make, content: dict[str, Any]) -> None:
    checked(fuzzed(p__yaml=written(content)))


@quick
@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda t: t.encode("utf-8", "replace")))
def test_yaml_of_any_bytes(fuzzed: Make, content: bytes) -> None:
    checked(fuzzed(p__yaml=content, q__py=SOUND.encode()))


@quick
@given(st.data())
def test_sound_yaml_with_one_piece_exchanged(fuzzed: Make, data: st.DataObject) -> None:
    """Near misses are the mistakes that people make."""
    sound: dict[str, Any] = {
        "sources": {"orders": {"path": "data/o.jsonl", "schema": "id int, v int", "key": "id"}},
        "tables": {"t": {"schema": "a int", "key": ["a"]}},
        "assets": {
            "kept": {
                "from": "orders",
                "key": "id",
                "steps": [
                    {"filter": {"where": "v > 0", "reason": "none"}},
                    {"groupBy": {"columns": ["id"], "agg": {"n": "count(*)"}}},
                ],
            }
        },
    }
    node: Any = sound
    while True:
        places = list(node) if isinstance(node, dict) else list(range(len(node)))
        place = data.draw(st.sampled_from(places))
        inner = node[place]
        if not isinstance(inner, (dict, list)) or not inner or data.draw(st.booleans()):
            node[place] = data.draw(yaml_values)
            break
        node = inner
    checked(fuzzed(p__yaml=written(sound)))


# ---- Python ---------------------------------------------------------------------------------

names = st.text(alphabet="abc_", min_size=1, max_size=6).filter(
    lambda n: n.isidentifier() and not keyword.iskeyword(n)
)
arguments = st.sampled_from(
    [repr(v) for v in (None, 5, -1, 1.5, True, "x", "", "id", [], {}, ["id"])]
)
STATEMENTS = (
    "tm.source({0}, {1})", "tm.source({0}, {1}, {2})", "tm.source({0}, {1}, schema={2}, key={3})",
    "tm.table({0}, schema={1}, key={2})", "tm.asset({0})", "tm.asset(name={0}, key={1})",
    "tm.asset(lambda: {0})", "tm.asset(lambda orders: {0}, name={1})",
    "tm.asset(lambda orders: orders.filter({0}, reason={1}))",
    "tm.asset(lambda orders: orders.output({0}))",
    "tm.asset(lambda orders: orders.select({0}).drop({1}))",
    "tm.asset(lambda orders: orders.join(orders, {0}))",
    "tm.asset(lambda orders: orders.groupBy({0}).agg({1}))",
    "tm.daily({0}, start={1})", "raise SystemExit({0})", "raise BaseException({0})", "1 / 0",
    "import sys; sys.exit({0})", "x = {0}[{1}]", "assert {0}", "tm.asset({0})(None)",
)  # fmt: skip


@quick
@given(st.lists(st.tuples(st.sampled_from(STATEMENTS), *[arguments] * 4), min_size=1, max_size=4))
def test_python_of_calls_with_any_arguments(fuzzed: Make, lines: list[tuple[str, ...]]) -> None:
    text = SOUND + "\n".join(form.format(*args) for form, *args in lines) + "\n"
    checked(fuzzed(p__py=text.encode()))


@quick
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda t: t.encode("utf-8", "replace")))
def test_python_of_any_bytes(fuzzed: Make, content: bytes) -> None:
    found = checked(fuzzed(p__py=content, q__py=SOUND.encode()))
    assert isinstance(json.dumps(found), str)
