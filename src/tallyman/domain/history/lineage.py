"""Lineage: the results and sources that a walk along inputs reaches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["asset", "source"]
Granularity = Literal["partition", "asset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """One partition of an asset, or a source, and its distance from the start."""

    asset: str
    partition: str | None
    kind: Kind
    depth: int
    status: str | None  # of the latest materialization, in any state; None for a source
    pipeline: str | None = None
    """The pipeline that it belongs to; None if it is the one that was asked."""
