"""What a child does with SIGINT is inherited from the process that starts it.

A suite that was started in the background ignores SIGINT, and so would every command it starts;
a test that interrupts one says how it is started.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def at_a_terminal() -> Iterator[None]:
    """SIGINT interrupts what is started meanwhile."""
    with _sigint(signal.default_int_handler):
        yield


@contextmanager
def in_the_background() -> Iterator[None]:
    """What is started meanwhile ignores SIGINT, as after `&` in a script."""
    with _sigint(signal.SIG_IGN):
        yield


def ignores(process: int, number: signal.Signals) -> bool:
    [mask] = [
        line.split()[1]
        for line in Path(f"/proc/{process}/status").read_text().splitlines()
        if line.startswith("SigIgn:")
    ]
    return bool(int(mask, 16) & 1 << (number - 1))


@contextmanager
def _sigint(handler: Callable[..., object] | signal.Handlers) -> Iterator[None]:
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
