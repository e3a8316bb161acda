"""PySpark pipelines in which every row is accounted for."""

from typing import TYPE_CHECKING, Any

from tallyman.domain.definition.frame import Frame
from tallyman.domain.definition.step import otherwise
from tallyman.domain.history.run import AssetResult, RunResult
from tallyman.domain.pipeline.approval import Approval, approval
from tallyman.domain.pipeline.declare import asset, dataset, source, table
from tallyman.domain.pipeline.partition import Partitioning, daily, partitions
from tallyman.domain.pipeline.pipeline import Asset, SharedDataset, Source
from tallyman.domain.pipeline.threshold import Thresholds
from tallyman.domain.pipeline.trigger import Schedule, schedule
from tallyman.domain.task.retry import RetryPolicy, retry
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
    "RetryPolicy",
    "RunResult",
    "Schedule",
    "SharedDataset",
    "Source",
    "Table",
    "TallymanError",
    "Thresholds",
    "approval",
    "asset",
    "daily",
    "dataset",
    "otherwise",
    "partitions",
    "retry",
    "schedule",
    "source",
    "table",
]

_project = OnDemand("tallyman.project")


def __getattr__(name: str) -> Any:
    # A pipeline file imports this package to declare things; it never needs what runs them.
    if name == "Project":
        return _project.Project
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
