"""Process identity: name this process, and check whether another one is still alive."""

from __future__ import annotations

import os
import socket

import psutil

from tallyman.domain.history.materialization import RunRecord


def node() -> str:
    """Return `host/pid@start`. The start time distinguishes a process from a later one with the
    same pid."""
    return f"{socket.gethostname()}/{os.getpid()}@{_started(os.getpid())}"


def is_gone(run: RunRecord) -> bool:
    """True if the run's process died: on this machine the process is looked up; on another machine
    the lease decides."""
    ended = has_ended(run.executor_node or "")
    return run.lease_expired if ended is None else ended


def has_ended(node: str) -> bool | None:
    """True if the process ended; None if it is on another machine."""
    host, _, process = node.rpartition("/")
    if host != socket.gethostname():
        return None
    pid, _, started = process.partition("@")
    return not pid.isdigit() or _started(int(pid)) != started


def _started(pid: int) -> str | None:
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.0f}"
    except psutil.NoSuchProcess:
        return None
