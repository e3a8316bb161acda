"""For users: run assets and pipelines in tests, on rows given there, and see what became of them.

The names are loaded when they are first used: pytest imports this package in every session of an
environment that has Tallyman, also where no test asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    from tallyman.testing.made_asset import MadeAsset
    from tallyman.testing.row_change import Mismatch, RowChange, compare_trace
    from tallyman.testing.tally_kit import TallyKit

__all__ = ["MadeAsset", "Mismatch", "RowChange", "TallyKit", "compare_trace"]

_changes = OnDemand("tallyman.testing.row_change")
_DOORS = {
    "RowChange": _changes,
    "MadeAsset": OnDemand("tallyman.testing.made_asset"),
    "Mismatch": _changes,
    "TallyKit": OnDemand("tallyman.testing.tally_kit"),
    "compare_trace": _changes,
}


def __getattr__(name: str) -> object:
    if name not in _DOORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_DOORS[name], name)
