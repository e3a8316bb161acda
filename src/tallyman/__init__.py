"""PySpark pipelines in which every row is accounted for."""

from typing import TYPE_CHECKING, Any

from tallyman.domain.definition.frame import Frame
from tallyman.domain.history.run import AssetResult, RunResult
from tallyman.domain.pipeline.approval import Approval, approval
from tallyman.domain.pipeline.partition import Partitioning, daily, partitions
from tallyman.domain.pipeline.pipeline import Asset, Source, asset, source, table
from tallyman.domain.pipeline.threshold import Thresholds
from tallyman.domain.version.table import Table
from tallyman.errors import TallymanError
from tallyman.on_demand import OnDemand

if TYPE_CHECKING:
    from tallyman.project import Project

__version__ = "0.1.0"

__all__ = [
    "Approval",
    "Asset",
    "AssetResult",
    "Frame",
    "Partitioning",
    "Project",
    "RunResult",
    "Source",
    "Table",
    "TallymanError",
    "Thresholds",
    "approval",
    "asset",
    "daily",
    "partitions",
    "source",
    "table",
]

_project = OnDemand("tallyman.project")


def __getattr__(name: str) -> Any:
    # A pipeline file imports this package to declare things; it never needs what runs them.
    if name == "Project":
        return _project.Project
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
