"""Whatever is in the settings and in Python files: exit code 0 or 2, a message with the file, no
stack trace, and nothing left behind."""

from __future__ import annotations

import json
import keyword
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.conftest import SOUND
from tests.fuzz.definitions import Make, any_bytes, checked, quick, values, written

# ---- settings -------------------------------------------------------------------------------

SETTINGS = (
    "name", "pipelines", "runs", "warehouse", "master", "spark", "thresholds", "database", "trace",
    "signing_key", "keep_runs", "column_metrics", "nonsense",
)  # fmt: skip
settings_values = st.dictionaries(st.sampled_from(SETTINGS), values, max_size=4)


@quick
@given(settings_values)
def test_settings_of_any_values(fuzzed: Make, given_values: dict[str, Any]) -> None:
    checked(fuzzed(written(given_values), p__py=SOUND.encode()))


@quick
@given(any_bytes)
def test_settings_of_any_bytes(fuzzed: Make, content: bytes) -> None:
    project = fuzzed(content, p__py=SOUND.encode())
    checked(project)
    project.says("ls") if not content.strip() else None


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
@given(any_bytes)
def test_python_of_any_bytes(fuzzed: Make, content: bytes) -> None:
    found = checked(fuzzed(p__py=content, q__py=SOUND.encode()))
    assert isinstance(json.dumps(found), str)
