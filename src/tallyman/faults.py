"""Named points where a process can be made to die, so that tests can check what is left.

`TALLYMAN_CRASH_AT=point` kills the process there as `kill -9` would; `point:raise` raises instead;
`point:full` fails as a full disk does; `point@2` means the second time the point is reached.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
from enum import StrEnum


class Point(StrEnum):
    RUN_REGISTERED = "run_registered"
    FOLDER_MADE = "folder_made"
    ASSET_STARTED = "asset_started"
    SEGMENT_WRITTEN = "segment_written"
    TRACE_STEP = "trace_step"
    OUTPUT_MOVED = "output_moved"
    LEDGER_WRITTEN = "ledger_written"
    FILES_PUT = "files_put"
    FRAGMENT_OPENED = "fragment_opened"
    FRAGMENT_DESCRIBED = "fragment_staged"
    ASSET_RECORDED = "asset_recorded"
    METADATA_WRITTEN = "metadata_written"
    COMMITTED = "committed"
    REPORT_WRITTEN = "report_written"
    SEALED = "sealed"
    NOTIFIED = "notified"


class Planted(Exception):
    """An error raised on demand by a test; no code catches it on purpose."""


_seen: dict[str, int] = {}
_counting = threading.Lock()


def reach(point: Point) -> None:
    wanted = os.environ.get("TALLYMAN_CRASH_AT")
    if not wanted:
        return
    place, _, how = wanted.partition(":")
    name, _, nth = place.partition("@")
    if name != point:
        return
    with _counting:
        _seen[name] = _seen.get(name, 0) + 1
        if _seen[name] != int(nth or 1):
            return
    if how == "raise":
        raise Planted(point)
    if how == "full":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.kill(os.getpid(), signal.SIGKILL)
