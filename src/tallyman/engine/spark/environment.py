"""The environment of a run: versions and settings, without secrets."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from tallyman.domain.definition.canonical_json import canonical_hash
from tallyman.engine.spark.secrets import HIDDEN, SECRET, without_assigned
from tallyman.engine.spark.settings import settings_for


def environment(master: str | None, conf: Mapping[str, str]) -> dict[str, Any]:
    return {
        "tallyman_version": metadata.version("tallyman"),
        "python_version": platform.python_version(),
        "pyspark_version": metadata.version("pyspark"),
        "spark_version": metadata.version("pyspark"),
        "java_version": java_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "spark_settings": without_secrets(settings_for(master, conf)),
        "packages": packages(),
        "packages_hash": canonical_hash(packages()),
    }


@cache
def packages() -> dict[str, str]:
    """List every installed package, because only a named package can be installed again. The names
    of folders are enough; opening each one takes hundreds of times as long.
    """
    found: dict[str, str] = {}
    for place in reversed(sys.path):
        for folder in Path(place or ".").glob("*.dist-info"):
            name, _, version = folder.stem.rpartition("-")
            found[name.replace("_", "-").lower()] = version
    return dict(sorted(found.items()))


def java_version() -> str | None:
    """Read Java's own `release` file: starting Java to ask takes longer than the whole command."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java")
    place = Path(home) if home else Path(os.path.realpath(java)).parent.parent if java else None
    try:
        text = (place / "release").read_text(encoding="utf-8") if place else ""
    except OSError:
        return None
    found = re.search(r'^JAVA_VERSION="([^"]*)"', text, re.M)
    return found.group(1) if found else None


def without_secrets(conf: Mapping[str, str]) -> dict[str, str]:
    """Hide every setting with a name or a value that looks like a secret."""
    return {
        name: HIDDEN if SECRET.search(name) else without_assigned(value)
        for name, value in sorted(conf.items())
    }
