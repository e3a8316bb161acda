"""Values for definitions of any kind, and the promise that `check` keeps for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.fuzz.cases import DEFINITIONS
from tests.fuzz.conftest import Fuzzed
from tests.world.scale import FULL

quick = settings(
    max_examples=DEFINITIONS,
    deadline=None,
    derandomize=not FULL,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
Make = Callable[..., Fuzzed]
any_bytes = st.binary(max_size=300) | st.text(max_size=300).map(
    lambda text: text.encode("utf-8", "replace")
)

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
