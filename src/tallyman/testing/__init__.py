"""For users: run assets and pipelines in tests, on rows given there, and see what became of them.

The names are loaded when they are first used: pytest imports this package in every session of an
environment that has Tallyman, also where no test asks for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tallyman.testing.change import Change, Mismatch, compare_trace
    from tallyman.testing.made_asset import MadeAsset
    from tallyman.testing.tally import Tally

__all__ = ["Change", "MadeAsset", "Mismatch", "Tally", "compare_trace"]

_MODULES = {
    "Change": "change",
    "MadeAsset": "made_asset",
    "Mismatch": "change",
    "Tally": "tally",
    "compare_trace": "change",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
