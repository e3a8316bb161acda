"""Whatever is in a file of YAML or JSON: exit code 0 or 2, a message with the file, no stack trace,
and nothing left behind."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.conftest import SOUND
from tests.fuzz.definitions import Make, any_bytes, checked, quick, scalars, written

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
@given(st.dictionaries(st.sampled_from(KEYS[:4]), yaml_values, min_size=1, max_size=4))
def test_json_of_the_right_words_in_any_order(fuzzed: Make, content: dict[str, Any]) -> None:
    checked(fuzzed(p__json=json.dumps({"tallyman": 1, **content}, default=str).encode()))


@quick
@given(any_bytes)
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
