"""The child: does the work of one task after the other, and knows nothing of the server.

It gets orders as lines of JSON on stdin and answers with lines of JSON on a pipe: events while it
works, and the result. Stdin stays open as long as the worker lives; when it closes, the child ends
with everything it started.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO, TextIO

from tallyman.errors import TallymanError
from tallyman.worker.confine import confine

PIPE_VARIABLE = "TALLYMAN_CHILD_PIPE"
CONFINED = "--confined"
"""The argument for a child that is to run code of users."""
ORPHANED = 113
"""The exit code of a child whose worker died."""

OF_SPARK = ("pyspark.", "py4j.")


class Channel:
    """The pipe to the worker, as the work of one task sees it. Every message has the number of its
    order: what is sent after the task has ended belongs to no other one."""

    def __init__(self, pipe: TextIO, number: int, writing: threading.Lock) -> None:
        self._pipe, self._number, self._writing = pipe, number, writing

    def emit(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Send events of the task while it goes on."""
        self._write({"events": [dict(event) for event in events]})

    def begin(self) -> None:
        self._write({"begun": True})

    def end(self, result: Mapping[str, Any], *, fit: bool, lost: bool) -> None:
        """Send the result; `fit` says whether this process may do another task, `lost` whether the
        failure is that of this process and not of the task."""
        self._write({"result": dict(result), "fit": fit, "lost": lost})

    def _write(self, message: Mapping[str, Any]) -> None:
        with self._writing:
            self._pipe.write(json.dumps({"number": self._number, **message}) + "\n")
            self._pipe.flush()


Work = Callable[[Mapping[str, Any], Channel], Mapping[str, Any] | None]
"""Does the work of a task; returns the result: `events` to emit with it, and `status` if it is not
Completed."""
Prepare = Callable[[Mapping[str, Any]], None]
"""Gets a process ready for work with these settings (`task["process"]`) before there is a task. Its
name is that of the work with `prepare_` in front; a module may do without."""


def main(arguments: Sequence[str] = ()) -> None:
    # Before there is a second thread: it would not be confined.
    work = _confined() if CONFINED in arguments else _work
    descriptor = int(os.environ.pop(PIPE_VARIABLE))
    os.set_inheritable(descriptor, False)
    pipe, writing = os.fdopen(descriptor, "w", encoding="utf-8"), threading.Lock()
    orders: SimpleQueue[dict[str, Any]] = SimpleQueue()
    threading.Thread(target=_receive, args=(_own_stdin(), orders), daemon=True).start()
    while True:
        order = orders.get()
        if "task" in order:
            channel = Channel(pipe, order["number"], writing)
            channel.begin()
            result, fit = work(order["entry"], order["task"], channel)
            gone = _spark_is_gone()
            lost = gone and result["status"] == "Failed"
            if lost:
                result = {**result, "retryable": True}
            sys.stdout.flush()
            sys.stderr.flush()
            channel.end(result, fit=fit and not gone, lost=lost)
        else:
            _prepare(order["entry"], order["process"])


def _confined() -> Callable[[str, Mapping[str, Any], Channel], tuple[Mapping[str, Any], bool]]:
    """Confine this process; return how it does its work, which is to refuse it if that failed."""
    try:
        confine(Path(os.environ["HOME"]))
    except TallymanError as error:
        return partial(_refuse, error)
    return _work


def _refuse(error: TallymanError, *_: object) -> tuple[Mapping[str, Any], bool]:
    return {"status": "Failed", "retryable": error.retryable, "error": error.facts()}, False


def _own_stdin() -> BinaryIO:
    """Take stdin away from the work: what it reads there would be the next order."""
    orders = os.fdopen(os.dup(0), "rb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    return orders


def _receive(stdin: BinaryIO, orders: SimpleQueue[dict[str, Any]]) -> None:
    for line in stdin:
        orders.put(json.loads(line))
    # The worker is gone. Its child leads a group, which ends with it.
    with suppress(OSError):
        if os.getpgrp() == os.getpid():
            os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(ORPHANED)


def _work(entry: str, task: Mapping[str, Any], channel: Channel) -> tuple[Mapping[str, Any], bool]:
    """Do the work; return its result, and true if this process is as good as before. It is not
    after an error that nobody foresaw, or that may be over in another process."""
    try:
        work: Work = _function(entry)
        result = {"status": "Completed", **(work(task, channel) or {})}
        return result, result["status"] == "Completed" or not result.get("retryable")
    except TallymanError as error:
        return _refuse(error)[0], not error.retryable
    except Exception as error:
        # A mistake in the work is made again by the next attempt; trouble with files and
        # connections, or with starting Spark, may be over by then.
        traceback.print_exc()
        code = "io_error" if isinstance(error, OSError) else "execution_error"
        text = f"{type(error).__name__}: {error}"
        known = {"code": code, "message": text[:2000]}
        passes = isinstance(error, OSError) or type(error).__module__.startswith(OF_SPARK)
        return {"status": "Failed", "retryable": passes, "error": known}, False


def _spark_is_gone() -> bool:
    """True if this process started Spark, and its JVM was killed, or gave up for want of memory."""
    context = getattr(sys.modules.get("pyspark.core.context"), "SparkContext", None)
    active = getattr(context, "_active_spark_context", None)
    try:
        return active is not None and bool(active._jsc.sc().isStopped())
    except Exception:  # nobody answers at the gateway
        return True


def _prepare(entry: str, process: Mapping[str, Any]) -> None:
    """Get ready for work that is expected. If that fails, the work itself will say why."""
    module, _, name = entry.partition(":")
    with suppress(Exception):
        prepare: Prepare | None = getattr(importlib.import_module(module), f"prepare_{name}", None)
        if prepare is not None:
            prepare(process)


def _function(entry: str) -> Any:
    module, _, name = entry.partition(":")
    return getattr(importlib.import_module(module), name)


if __name__ == "__main__":
    main(sys.argv[1:])
