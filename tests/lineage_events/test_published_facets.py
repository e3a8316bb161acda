"""Events are built without the client of OpenLineage; it still knows each facet that they use."""

from __future__ import annotations

import importlib
import pkgutil

import pytest
from openlineage.client import event_v2, facet_v2, generated

from tallyman.control.openlineage.facets import EVENT, VERSIONS, RunState, facet


def schemas() -> dict[str, str]:
    """Collect the addresses of the schemas of all facets of the client."""
    found: dict[str, str] = {}
    for module in pkgutil.iter_modules(generated.__path__):
        for name, kind in vars(
            importlib.import_module(f"{generated.__name__}.{module.name}")
        ).items():
            if isinstance(kind, type) and issubclass(kind, facet_v2.BaseFacet):
                found[name] = kind._get_schema()
    return found


@pytest.mark.parametrize("name", sorted(VERSIONS))
def test_a_facet_has_the_schema_that_the_client_would_give_it(name: str) -> None:
    assert facet(name)["_schemaURL"] == schemas()[name]


def test_states_and_the_schema_of_events_are_those_of_the_client() -> None:
    assert [state.value for state in RunState] == [state.value for state in event_v2.RunState]
    assert event_v2.RunEvent._get_schema() == EVENT
