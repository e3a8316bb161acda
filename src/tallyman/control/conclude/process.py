"""This process and others: who they are, and whether they still live."""

from __future__ import annotations

import os
import socket

import psutil

from tallyman.domain.history.materialization import RunRecord


def node() -> str:
    """`host/pid@start`: the start distinguishes a process from a later one with the same number."""
    return f"{socket.gethostname()}/{os.getpid()}@{_started(os.getpid())}"


def is_gone(run: RunRecord) -> bool:
    """On this machine, ask for the process; of another only its silence can be heard."""
    ended = has_ended(run.executor_node or "")
    return run.lease_expired if ended is None else ended


def has_ended(node: str) -> bool | None:
    """None: it is, or was, on another machine."""
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
