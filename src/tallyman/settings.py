"""tallyman.yaml and the environment, read once, at the edges, into one frozen value."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml

from tallyman.errors import NotFound, UsageError

FILE = "tallyman.yaml"
KNOWN = ("name", "pipelines", "runs", "master", "spark", "thresholds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`home` is the folder of tallyman.yaml; other paths are relative to it."""

    home: Path
    name: str
    pipelines: str = "pipelines"
    runs: str = "runs"
    master: str | None = None
    spark: Mapping[str, str] = field(default_factory=dict)
    thresholds: str | Mapping[str, object] | None = None

    @property
    def runs_folder(self) -> Path:
        return self.home / self.runs

    @property
    def state_folder(self) -> Path:
        return self.home / ".tallyman"

    def with_spark(self, master: str | None, conf: Mapping[str, str]) -> Settings:
        return replace(self, master=master or self.master, spark={**self.spark, **conf})


def read_settings(start: str | Path | None = None) -> Settings:
    """From tallyman.yaml in `start` (or TALLYMAN_HOME, or the working directory) or any parent."""
    begin = Path(start or os.environ.get("TALLYMAN_HOME") or Path.cwd()).resolve()
    for folder in (begin, *begin.parents):
        if (folder / FILE).is_file():
            return _parsed(folder)
    raise NotFound("project (no tallyman.yaml here or in any parent) at", str(begin))


def _parsed(home: Path) -> Settings:
    try:
        found = yaml.safe_load((home / FILE).read_text(encoding="utf-8")) or {}
    except yaml.YAMLError as error:
        raise UsageError(f"{home / FILE} is not valid YAML: {error}") from None
    if not isinstance(found, dict):
        raise UsageError(f"{home / FILE}: expected names and values")
    for key in found:
        if key not in KNOWN:
            near = difflib.get_close_matches(str(key), KNOWN, 1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise UsageError(f"{home / FILE}: unknown setting {key!r}.{meant}")
    spark = found.get("spark") or {}
    if not isinstance(spark, dict):
        raise UsageError(f"{home / FILE}: spark: expected names and values")
    texts = {str(k): str(v).lower() if isinstance(v, bool) else str(v) for k, v in spark.items()}
    rest = {k: found[k] for k in ("pipelines", "runs", "master", "thresholds") if k in found}
    return Settings(home=home, name=str(found.get("name", home.name)), spark=texts, **rest)
