"""PySpark pipelines in which every row is accounted for."""

from tallyman.domain.frame import Frame
from tallyman.domain.pipeline import Asset, Source, asset, source
from tallyman.domain.run import AssetResult, RunResult
from tallyman.domain.threshold import Thresholds
from tallyman.errors import TallymanError
from tallyman.project import Project

__version__ = "0.1.0"

__all__ = [
    "Asset",
    "AssetResult",
    "Frame",
    "Project",
    "RunResult",
    "Source",
    "TallymanError",
    "Thresholds",
    "asset",
    "source",
]
