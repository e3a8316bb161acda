"""PySpark pipelines in which every row is accounted for."""

from tallyman.domain.approval import Approval, approval
from tallyman.domain.frame import Frame
from tallyman.domain.partition import Partitioning, daily, partitions
from tallyman.domain.pipeline import Asset, Source, asset, source, table
from tallyman.domain.run import AssetResult, RunResult
from tallyman.domain.table import Table
from tallyman.domain.threshold import Thresholds
from tallyman.errors import TallymanError
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
