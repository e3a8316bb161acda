"""The work of tasks in the tests, done by children of workers."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tallyman.errors import UsageError
from tallyman.worker.child import Channel

DONE: list[str] = []
"""What this process was asked for, task by task."""
KEPT: list[bytes] = []
LEFT: list[tuple[threading.Event, threading.Thread]] = []


def echo(task: Mapping[str, Any], channel: Channel) -> dict[str, Any]:
    """Emit the events that the task asks for: some meanwhile, the others with the result."""
    config = task["config"]
    for event in config.get("meanwhile", []):
        channel.emit([event])
    time.sleep(config.get("seconds", 0))
    if "leave" in config:
        Path(config["leave"]).write_text(str(task["attempt"]))
    return {"events": config.get("events", [])}


def hang(task: Mapping[str, Any], channel: Channel) -> None:
    """Say where it is, then wait for ever; with `stubborn` also if it is asked to stop."""
    if task["config"].get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    place = Path(task["config"]["place"])
    other = subprocess.Popen(["sleep", "600"])
    place.with_suffix(".new").write_text(f"{os.getpid()} {other.pid}")
    place.with_suffix(".new").rename(place)
    while True:
        time.sleep(60)


def gated(task: Mapping[str, Any], channel: Channel) -> dict[str, Any]:
    """Wait until the file `go` is there."""
    config = task["config"]
    while not Path(config["go"]).exists():
        time.sleep(0.02)
    for event in config.get("meanwhile", []):
        channel.emit([event])
    return {"events": config.get("events", [])}


def crash(task: Mapping[str, Any], channel: Channel) -> None:
    sys.stderr.write("out of luck\n")
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def raises(task: Mapping[str, Any], channel: Channel) -> None:
    raise (
        OSError("the disk went away") if task["config"].get("io") else ValueError("no such column")
    )


def prepare_warm(process: Mapping[str, Any]) -> None:
    DONE.append(f"prepared for {process.get('name')}")


def warm(task: Mapping[str, Any], channel: Channel) -> dict[str, Any]:
    """Do odd things in a process that may stay, and return what is seen of those before."""
    config = task["config"]
    found = {"pid": os.getpid(), "before": list(DONE), "files": sorted(os.listdir("."))}
    found |= {"stdin": sys.stdin.read(), "env": os.environ.get("REGION")}
    DONE.append(config.get("say", ""))
    Path("left").write_text("of an earlier task")
    sys.stdout.write(config.get("say", ""))
    KEPT.append(b"x" * config.get("bytes", 0))
    for go, thread in LEFT:  # an earlier task left a thread, which now writes to its channel
        go.set()
        thread.join()
    if config.get("leave_a_thread"):
        go = threading.Event()
        late = threading.Thread(target=lambda: go.wait() and channel.emit([{"of": config["say"]}]))
        late.start()
        LEFT.append((go, late))
    if config.get("known"):
        raise UsageError("a known mistake")
    if config.get("place"):
        Path(config["place"]).write_text(json.dumps(found))
    return {"found": found}


def spy(task: Mapping[str, Any], channel: Channel) -> dict[str, Any]:
    """Hand over what a curious piece of work can see of its worker."""
    seen = {"env": dict(os.environ), "task": task, "argv": sys.argv, "files": _open_files()}
    Path(task["config"]["place"]).write_text(json.dumps(seen))
    return {}


def operator(task: Mapping[str, Any], channel: Channel) -> dict[str, Any]:
    """Try to get at what belongs to the worker, and emit what came of each try."""
    config = task["config"]
    tries = {name: (lambda file=file: file_of(file)) for name, file in config["files"].items()}
    tries |= {
        "environment of the worker": lambda: file_of(f"/proc/{os.getppid()}/environ"),
        "signal to the worker": lambda: os.kill(os.getppid(), 0),
        "internal, without a token": lambda: urllib.request.urlopen(config["internal"]),
        "socket of the database": lambda: connected(config["socket"]),
        "by another program": lambda: subprocess.run(
            ["cat", config["files"]["token"]], check=True, capture_output=True
        ),
        "a file outside": lambda: Path(config["outside"]).write_text("x"),
        "a file of its own": lambda: Path("mine").write_text("x"),
        "environment": lambda: sorted(os.environ),
    }
    seen = {name: outcome(one) for name, one in tries.items()}
    made = [
        {"dataset_uuid": config["dataset"], "cursor": f"{name}: {found}"[:1000]}
        for name, found in seen.items()
    ]
    return {"events": made, "found": seen}


def file_of(name: str) -> str:
    return Path(name).read_text(errors="replace")


def connected(place: str) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(place)


def outcome(attempted: Callable[[], object]) -> str:
    try:
        return f"done {attempted()}"
    except (OSError, subprocess.CalledProcessError) as error:
        return type(getattr(error, "reason", error)).__name__


def _open_files() -> list[str]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            continue
    return found
