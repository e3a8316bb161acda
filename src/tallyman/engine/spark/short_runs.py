"""Java for short runs: a process that ends after a few seconds need not compile its code well.

Java compiles code twice, the second time with much effort. On little data that effort is never
repaid: it was a third of all processor time of the demo. The option goes to Java like the archive
of classes, not by a setting of Spark: a run must not differ because of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ONE_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""With one compiler, the default room for code is a fifth, and Spark makes a lot of code."""
SERIAL = "-XX:+UseSerialGC"
ELSEWHERE = ("SPARK_HOME", "SPARK_CONF_DIR")
"""Variables of a Spark with settings of its own, which may choose a collector."""
OPTIONS = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
MOST_BYTES = 64 << 20
"""The most bytes of input for which the second compilation is left out."""


def java(conf: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Return the options. Java does not start with two collectors, so ours is left out where
    somebody may have chosen one."""
    given = [*conf.values(), *(environment.get(name, "") for name in OPTIONS)]
    chosen = any(name in environment for name in ELSEWHERE) or any("GC" in one for one in given)
    return ONE_COMPILER if chosen else f"{ONE_COMPILER} {SERIAL}"


def is_little(places: Iterable[Path], most: int = MOST_BYTES) -> bool:
    """True if the files and folders together have at most so many bytes. Stops at the first file
    that is too much."""
    total = 0
    for place in places:
        for size in _sizes(place):
            total += size
            if total > most:
                return False
    return True


def _sizes(place: Path) -> Iterator[int]:
    if place.is_file():
        yield place.stat().st_size
    for folder, _, files in os.walk(place):
        for name in files:
            try:
                yield os.stat(os.path.join(folder, name)).st_size
            except OSError:  # it is gone meanwhile, or a link to nothing
                continue
